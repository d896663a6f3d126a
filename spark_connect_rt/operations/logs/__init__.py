"""Log lines of tasks, from all workers of the group, and the levels of loggers."""
