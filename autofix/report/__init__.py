"""Output of the commands: one file per output format."""
