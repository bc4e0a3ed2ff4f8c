"""From what a run showed to a patch: its facts in the terms of the codemods, and the search that runs candidates."""
