"""Findings that a user does not want to hear of: comments in the source, settings, a baseline, unchanged lines."""
