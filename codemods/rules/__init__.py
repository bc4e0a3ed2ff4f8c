"""The codemods, one file per kind of mistake; :mod:`codemods.rules.registry` finds them by walking this folder."""
