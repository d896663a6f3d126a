"""Pure decisions of the history of changes: what is hidden, what differs, what may be rolled back or undone."""
