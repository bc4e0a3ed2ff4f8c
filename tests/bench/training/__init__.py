"""Training scripts as people write them, put together from parts, for ``make bench``: none of them has a mistake."""
