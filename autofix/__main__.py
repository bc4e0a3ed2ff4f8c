"""``python -m autofix``: the command line, or ``python -m autofix train.py ARGS``: a script, explained if it dies."""

import sys

from autofix.live.script import is_script, run

if __name__ == "__main__":
    if is_script(sys.argv[1:]):
        raise SystemExit(run(sys.argv[1:]))
    from autofix.cli import main

    raise SystemExit(main())
