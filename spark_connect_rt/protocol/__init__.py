"""Bytes and JSON to values and back: the Connect subprotocol and the records of the internal topics. Pure."""
