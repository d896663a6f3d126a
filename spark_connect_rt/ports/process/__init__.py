"""What one process knows of itself: its limit of open files, its contact to brokers."""
