"""Discovery of plug-ins: connectors, converters, transformations, found by class name or alias.

Owns the list of bundled plug-ins, the registry, isolation, and the config providers. Must not run a connector.
"""
