"""``make bench``: five comparisons in one run, each turn by turn on this machine; prints medians and ratios.

check      autofix check and TorchFix on one folder of generated files
trace      a training step under the run witness and under torch.autograd.set_detect_anomaly(True)
run        autofix run on a small broken script, and one plain python SCRIPT
editor     autofix server, from an edit of a script of 1,000 lines to its diagnostics
fixtures   proving all fixtures from the warm server, and starting python for each of those runs
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from tests.bench import check, editor, proofs, trace
from tests.bench.timing import Comparison


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="which of them; all by default")
    parser.add_argument("--files", type=int, default=10, help="generated files for check (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=1000, help="lines in each of them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    options = parser.parse_args()
    parts = {
        "check": lambda: check.compare(options.files, options.lines, options.rounds),
        "trace": lambda: trace.compare(options.rounds),
        "run": lambda: proofs.compare_run(options.rounds),
        "editor": lambda: editor.compare(options.rounds, options.lines),
        "fixtures": proofs.compare_fixtures,
    }
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} processors{load}, Python {platform.python_version()}", flush=True)
    done: list[Comparison] = []
    for name in options.parts or parts:
        print(f"\n{name}", flush=True)
        done.append(parts[name]())
    print()
    for one in done:
        print(one)
    return 0 if all(one.holds for one in done) else 1


if __name__ == "__main__":
    sys.exit(main())
