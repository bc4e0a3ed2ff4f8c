"""Programs as they are read: files as one line space, syntax trees, entries, and which calls a program can reach."""
