"""What each command does: call the engine or the proof, hand the outcome to a reporter, return the exit code."""
