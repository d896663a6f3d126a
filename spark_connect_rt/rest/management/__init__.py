"""The management API, ``/admin``: one module per resource, each with its routes and their OPERATIONS."""
