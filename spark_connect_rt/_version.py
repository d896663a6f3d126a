"""The version of this package, in one place."""

from __future__ import annotations

__version__ = "0.1.0"
# The Kafka Connect release whose REST API and topics this version speaks; `GET /` answers it to clients.
CONNECT_VERSION = "4.1.1"
