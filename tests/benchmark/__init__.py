"""Counts of known mistakes that are found, and repaired as they should be, and of correct scripts left alone."""
