"""Code that runs inside the user's interpreter: needs the standard library and torch, nothing else of this project."""
