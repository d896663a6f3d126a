"""The web console, ``/console``: pages over the REST API, rendered by each worker."""
