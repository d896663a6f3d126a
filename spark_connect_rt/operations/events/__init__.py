"""The group's events: kept by each worker, merged in order when they are read."""
