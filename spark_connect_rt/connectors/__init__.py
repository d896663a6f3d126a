"""Bundled connectors, one module each. They see ``api`` and their own client libraries, not the runtime."""
