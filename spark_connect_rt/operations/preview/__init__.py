"""Previews of connectors: made ready on this worker, run on an executor."""
