"""``python -m autofix``: the command line, or ``python -m autofix train.py ARGS``: a script, explained if it dies."""

import sys
from os.path import isfile

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments and arguments[0].endswith(".py") and isfile(arguments[0]):  # a script, and no command
        from autofix.live.script import run

        raise SystemExit(run(arguments))
    from autofix.cli import main

    raise SystemExit(main())
