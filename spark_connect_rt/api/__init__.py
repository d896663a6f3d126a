"""What plug-in authors import: connectors, tasks, records, converters."""
