"""What the commands print: one file per output format."""
