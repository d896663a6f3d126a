"""Speaks the REST API, of our workers and of Java's: what the command line and the console are built on."""
