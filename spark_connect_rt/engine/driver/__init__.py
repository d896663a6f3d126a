"""Driver."""
