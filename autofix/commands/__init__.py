"""The work of each command: call the engine or the proof, hand the outcome to a reporter, return the exit code."""
