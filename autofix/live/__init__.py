"""Where trainings run: what a backward call that fails is told by, in a process, a kernel, a test or a trainer."""
