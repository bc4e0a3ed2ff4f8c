"""Fetches the corpus: wheels from the package index, by name and version, of which only the Python files are unpacked.

Nothing of a package is installed or run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = Path(__file__).with_name("packages.txt")


class FetchError(Exception):
    """A package that the index does not give."""


def packages() -> list[str]:
    """Return the corpus as ``name==version``, in the list's order."""
    lines = (line.partition("#")[0].strip() for line in PACKAGES.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def fetch(package: str, folder: Path) -> Path:
    """Return the folder with the Python files of *package* (``name==version``), fetched where it is not there yet.

    Raises :class:`FetchError`.
    """
    target = folder / package.replace("==", "-")
    if target.is_dir():
        return target
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(wheels), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FetchError(f"{package}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no answer'}")
    (wheel,) = wheels.glob("*.whl")
    unfinished = target.with_name(f"{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unfinished, [name for name in archive.namelist() if name.endswith(".py")])
    shutil.rmtree(wheels)
    unfinished.rename(target)  # only what is complete has the name that is looked for
    return target
