"""The overview of a group: every connector's row, one connector whole, the workers; kept in memory, gathered on demand."""
