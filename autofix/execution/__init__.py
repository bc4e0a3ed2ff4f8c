"""Runs of the user's program: how it is launched, in which copy of the project, under which limits, and its record."""
