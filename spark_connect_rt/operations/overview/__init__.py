"""The group at a glance: every connector's row, one connector whole, the workers; gathered on demand."""
