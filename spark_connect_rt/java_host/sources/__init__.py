"""What ``source_task.py`` is made of: the frames of one Java source task, what of it is durable, its errant records."""
