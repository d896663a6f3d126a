"""Load balancing by the leader: numbers of tasks (``tasks.max.auto``), and which worker runs which."""
