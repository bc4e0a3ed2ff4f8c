"""Times of ``autofix check``, next to TorchFix on the same files."""
