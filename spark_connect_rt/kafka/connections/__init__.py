"""Connections to brokers that receive into memory which is used again, and send pieces without joining them."""
