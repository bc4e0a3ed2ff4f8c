"""Published packages with training loops in them: what ``autofix check`` finds in code that is known to work."""
