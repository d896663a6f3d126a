"""Puts the REST application together: Connect's resources, the features' routes, the console, ``/openapi.json``."""
