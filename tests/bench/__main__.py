"""``make bench``: comparisons in one run, each turn by turn on this machine; prints medians and ratios.

corpus     autofix check on published packages, cold and from its cache, next to ruff, and to TorchFix on a sample
scripts    autofix check on 20 training scripts of 200 to 330 lines, in a warm process
warm       one script of 400 lines, edited again and again, in a warm process
growth     time and memory of autofix check on growing numbers of files
trace      a training step under the run witness and under torch.autograd.set_detect_anomaly(True)
run        autofix run on a small broken script, and one plain python SCRIPT
editor     autofix server, from an edit of a script of 1,000 lines to its diagnostics
check      autofix check and TorchFix on one folder of generated files (only with --full, or by name)
fixtures   proving all fixtures from the warm server, and starting python for each of those runs (likewise)
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from tests.bench import check, corpus, editor, growth, proofs, scripts, trace
from tests.bench.timing import Comparison


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="which of them; by default all that take no more than minutes")
    parser.add_argument("--full", action="store_true", help="all parts, on 4,000 files and more, up to 100,000")
    parser.add_argument("--files", type=int, default=10, help="generated files for check (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=1000, help="lines in each of them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    options = parser.parse_args()
    parts = {
        "corpus": lambda: corpus.compare(options.rounds, full=options.full),
        "scripts": lambda: scripts.compare(options.rounds),
        "warm": lambda: [scripts.compare_warm(options.rounds)],
        "growth": lambda: growth.compare(full=options.full),
        "trace": lambda: [trace.compare(options.rounds)],
        "run": lambda: [proofs.compare_run(options.rounds)],
        "editor": lambda: [editor.compare(options.rounds, options.lines)],
        "check": lambda: [check.compare(options.files, options.lines, options.rounds)],
        "fixtures": lambda: [proofs.compare_fixtures()],
    }
    usual = [name for name in parts if options.full or name not in ("check", "fixtures")]
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} processors{load}, Python {platform.python_version()}", flush=True)
    done: list[Comparison] = []
    for name in options.parts or usual:
        print(f"\n{name}", flush=True)
        done += parts[name]()
    print()
    for one in done:
        print(one)
    return 0 if all(one.holds for one in done) else 1


if __name__ == "__main__":
    sys.exit(main())
