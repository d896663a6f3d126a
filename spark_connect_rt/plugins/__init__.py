"""Discovery of plug-ins: connectors, converters, transformations, found by class name or alias."""
