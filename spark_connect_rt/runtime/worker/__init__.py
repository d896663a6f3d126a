"""Life of connectors and tasks on this worker."""
