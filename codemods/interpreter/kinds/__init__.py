"""Kinds of values: what each kind does where the program calls it, or asks it for an attribute, an item or its truth.

One class for each kind, which registers itself for the classes of :mod:`autofix.codemods.interpreter.values` that it
is the behaviour of.
"""
