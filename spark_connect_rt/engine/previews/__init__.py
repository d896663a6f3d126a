"""Previews on an executor: a task is started for some records, which go no further than back to the driver."""
