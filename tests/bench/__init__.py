"""How long ``autofix check`` takes, next to TorchFix on the same files."""
