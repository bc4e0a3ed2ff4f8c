"""What goes wrong on autograd's tape, and how each mistake is rewritten.  No torch, no I/O, nothing of autofix."""
