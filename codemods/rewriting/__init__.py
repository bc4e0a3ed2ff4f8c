"""Edits of source text: the tree of a program, the smallest node that changes, and what several rules rewrite alike."""
