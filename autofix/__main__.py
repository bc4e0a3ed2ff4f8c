"""``python -m autofix``."""

from autofix.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
