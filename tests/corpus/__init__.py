"""Published packages with training loops: the findings of ``autofix check`` in code that is known to work."""
