"""The overview of a group: every connector's row, one connector whole, the workers; gathered on demand."""
