"""The worker: the herder decides, the worker runs connectors and tasks."""
