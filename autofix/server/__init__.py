"""The language server: the findings of ``autofix check`` while a file is written, and its repairs as actions."""
