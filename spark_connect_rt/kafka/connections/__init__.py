"""Connections to brokers that receive into buffers which are used again, and send what lies in pieces."""
