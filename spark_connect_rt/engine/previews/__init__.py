"""Previews on an executor: a task started for some records, which go no further than back to the driver."""
