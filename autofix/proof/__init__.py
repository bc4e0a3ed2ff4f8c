"""The proof by execution: two runs, the points that a patch must show, and how two proved patches compare."""
