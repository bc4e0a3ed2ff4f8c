"""The state of one run over the program, in the components that own it."""
