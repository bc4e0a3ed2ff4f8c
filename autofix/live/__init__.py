"""Explanations of a failed backward call where trainings run: in a process, a kernel, a test or a trainer."""
