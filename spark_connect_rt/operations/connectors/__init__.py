"""Connectors managed from the command line and the console: applied, edited, paused, described."""
