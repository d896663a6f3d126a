"""Previews of connectors: prepared on this worker, run on an executor."""
