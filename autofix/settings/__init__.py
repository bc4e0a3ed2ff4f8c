"""The settings of a project: ``[tool.autofix]`` in pyproject.toml, or autofix.toml, and how options override them."""
