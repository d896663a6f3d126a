"""Java plug-ins in the path of Python connectors: transformations, predicates, converters, config providers."""
