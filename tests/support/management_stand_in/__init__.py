"""The REST contract of a worker in memory, for tests of its clients: the console, the command line."""
