"""Models of library functions and of methods of Python's and torch's own objects: one file for each library.

A model is a function under ``@model("functools.partial")``, whose own signature binds the arguments of the call.
"""
