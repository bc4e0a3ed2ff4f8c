"""The tool around the codemods: find, rewrite, run, prove."""

__version__ = "0.1.0"
