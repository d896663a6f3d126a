"""What runs on executors: picklable, imports nothing of the driver side."""
