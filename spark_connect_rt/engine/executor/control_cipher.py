"""Encryption of the control channel: TLS 1.3 over TCP, plain on a unix socket.

Owns no socket: bytes in, bytes out, so either end may wait in its own way. The driver's certificate is made for this
one driver and is in the ticket: a peer that shows another is not the driver, whatever any authority says of it.
"""

from __future__ import annotations

import ssl
import threading
from typing import Protocol


class Cipher(Protocol):
    """One end of one connection."""

    ready: bool  # the handshake is over

    def greet(self, chunk: bytes = b"") -> bytes:
        """Continue the handshake; return what is to be sent. Raises OSError: the other end is not as it should be."""

    def seal(self, data: bytes) -> bytes:
        """Return the bytes to send for ``data``."""

    def open(self, chunk: bytes) -> bytes:
        """Return the data in what was received; may be none yet. Raises OSError: the other end did not seal it."""


class Plain:
    """No cipher: a unix socket in a folder that only its user can open."""

    ready = True

    def greet(self, chunk: bytes = b"") -> bytes:
        """Return nothing: there is no handshake."""
        return b""

    def seal(self, data: bytes) -> bytes:
        """Return ``data`` as it is: nothing is encrypted."""
        return data

    def open(self, chunk: bytes) -> bytes:
        """Return ``chunk`` as it is: nothing is encrypted."""
        return chunk


class Tls:
    """TLS; ``seal`` and ``open`` may be called by two threads at once, which OpenSSL itself does not bear."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.ready = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._lock = threading.Lock()

    def greet(self, chunk: bytes = b"") -> bytes:
        """Continue the handshake with the bytes received."""
        self._incoming.write(chunk)
        try:
            self._tls.do_handshake()
            self.ready = True
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def seal(self, data: bytes) -> bytes:
        """Return the TLS records of ``data``, to be sent in this order. Any thread."""
        left = memoryview(data)
        with self._lock:
            while left:
                left = left[self._tls.write(left) :]
            return self._outgoing.read()

    def open(self, chunk: bytes) -> bytes:
        """Decrypt and return all complete records in the received bytes."""
        opened = bytearray()
        with self._lock:
            self._incoming.write(chunk)
            try:
                while piece := self._tls.read(65_536):
                    opened += piece
            except ssl.SSLWantReadError:
                pass
        return bytes(opened)


def driver_known_by(certificate: str) -> Cipher:
    """Return the executor's end: it speaks to the owner of this certificate (PEM) alone; empty: not encrypted."""
    if not certificate:
        return Plain()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it is known by its key, whatever address it has
    context.load_verify_locations(cadata=certificate)
    return Tls(context, server_side=False)
