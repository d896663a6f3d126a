"""Connectors in Java, unmodified: the same jar and configuration in the Java host and in Java Connect 4.1."""
