"""The codemods, one file per kind of mistake; the registry beside them finds them by walking this folder."""
