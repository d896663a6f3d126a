"""What the leader does about load: numbers of tasks (``tasks.max.auto``), and which worker runs which."""
