"""The REST contract of a worker in memory, for tests of what is built on it: the console, the command line."""
