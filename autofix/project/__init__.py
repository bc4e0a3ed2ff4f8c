"""The project on the disk: files and their encodings, the root, the import roots, and the files of a program."""
