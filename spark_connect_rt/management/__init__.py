"""Behind the management API: history, events, dead letters, previews and checks, of the whole group."""
