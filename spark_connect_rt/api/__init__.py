"""The plug-in API: the classes that plug-in authors import for connectors, tasks, records and converters."""
