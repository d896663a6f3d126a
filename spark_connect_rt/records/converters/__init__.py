"""Connect values to bytes and back. Pure."""
