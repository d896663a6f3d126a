"""New connections of the control channel: from accept to hello, on a separate thread.

Owns strangers, so that they cost the channel nothing: how many wait, how much they may say, and for how long, before
they have named a slice and its token. Authenticated connections are handed to the channel; all others are closed.
"""

from __future__ import annotations

import datetime as dt
import hmac
import logging
import selectors
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from spark_connect_rt.engine.executor.control_cipher import Cipher, Plain, Tls
from spark_connect_rt.engine.executor.control_wire import MESSAGE_LIMIT_BYTES, Message, MessageSplitter

HELLO_TIMEOUT_S = 10.0
HELLO_LIMIT_BYTES = 65_536
_SAID_LIMIT_BYTES = 4 * HELLO_LIMIT_BYTES  # handshake, hello, and what was read with it
GUESTS_MAX = 256  # several times what a worker's slices open at once
ROLES = ("reader", "writer", "commit", "plugins", "preview")
_REST_S = 0.1  # when no client can be accepted: it would be tried again at once, and forever
log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class PendingConnection:
    """A connection that has not authenticated yet."""

    sock: socket.socket
    cipher: Cipher
    opened_s: float
    splitter: MessageSplitter = field(default_factory=lambda: MessageSplitter(HELLO_LIMIT_BYTES))
    said_bytes: int = 0

    def receive(self, chunk: bytes) -> tuple[bytes, Message | None, list[Message]]:
        """Return what to answer, the hello once it is whole, and what came behind it. Raises OSError, ValueError."""
        self.said_bytes += len(chunk)
        if self.said_bytes > _SAID_LIMIT_BYTES:
            raise ValueError("too much without a hello")
        answer = b""
        if not self.cipher.ready:
            answer, chunk = self.cipher.greet(chunk), b""
        if not self.cipher.ready:
            return answer, None, []
        messages = self.splitter.feed(self.cipher.open(chunk))
        hello = next(messages, None)
        if hello is None:
            return answer, None, []
        self.splitter.limit_bytes = MESSAGE_LIMIT_BYTES
        return answer, hello, list(messages)


class Handshakes:
    """The listener, those who wait there, and their thread."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        token_of: Callable[[int], str | None],
        admit: Callable[[PendingConnection, Message, list[Message]], None],
    ) -> None:
        """Take the listener; ``admit`` takes over each guest whose hello names a slice and its token."""
        self._listener = listener
        self._listener.setblocking(False)
        self._tls = tls
        self._token_of = token_of
        self._admit = admit
        self._guests: dict[PendingConnection, None] = {}  # the oldest first
        self._wake_in, self._wake_out = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more clients. Any thread."""
        self._stopped.set()
        self._wake_out.close()  # which the thread sees
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._serve_once()
            except Exception:
                log.exception("the control channel's listener failed")
                self._stopped.wait(_REST_S)
        for sock in (self._listener, self._wake_in, *(guest.sock for guest in self._guests)):
            sock.close()
        self._selector.close()

    def _serve_once(self) -> None:
        for key, _ in self._selector.select(1.0 if self._guests else None):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is not self._wake_in:
                self._serve(key.data)
        limit_s = time.monotonic() - HELLO_TIMEOUT_S
        for guest in [late for late in self._guests if late.opened_s < limit_s]:
            self._dismiss(guest, "no handshake in time")

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors left, most likely
            log.warning("control channel: cannot accept connections: %s", error)
            self._dismiss_oldest("its place is needed")
            self._stopped.wait(_REST_S)
            return
        if len(self._guests) >= GUESTS_MAX:  # the newest connection is the likeliest to say hello
            self._dismiss_oldest("too many connections wait")
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        cipher = Plain() if self._tls is None else Tls(self._tls, server_side=True)
        guest = PendingConnection(sock, cipher, time.monotonic())
        self._guests[guest] = None
        self._selector.register(sock, selectors.EVENT_READ, guest)

    def _dismiss_oldest(self, why: str) -> None:
        if self._guests:
            self._dismiss(next(iter(self._guests)), why)

    def _serve(self, guest: PendingConnection) -> None:
        if guest not in self._guests:
            return
        try:
            self._on_bytes(guest)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._dismiss(guest, str(error))
        except Exception as error:  # for any message
            log.exception("an unauthenticated connection failed")
            self._dismiss(guest, str(error))

    def _on_bytes(self, guest: PendingConnection) -> None:
        chunk = guest.sock.recv(HELLO_LIMIT_BYTES)
        if not chunk:
            raise ValueError("it closed the connection")
        answer, hello, others = guest.receive(chunk)
        if answer and guest.sock.send(answer) < len(answer):
            raise ValueError("it does not listen")
        if hello is not None:
            check_hello(hello, self._token_of)
            self._forget(guest)
            self._admit(guest, hello, others)

    def _dismiss(self, guest: PendingConnection, why: str) -> None:
        log.info("control channel: closing an unauthenticated connection: %s", why)
        self._forget(guest)
        guest.sock.close()

    def _forget(self, guest: PendingConnection) -> None:
        if self._guests.pop(guest, guest) is None:
            self._selector.unregister(guest.sock)


def check_hello(hello: Message, token_of: Callable[[int], str | None]) -> None:
    """Raise ValueError unless this is a half of one of our slices. No content of the message raises another error."""
    number, token, role = (hello.get(name) for name in ("slice", "token", "role"))
    known = token_of(number) if hello["op"] == "hello" and type(number) is int else None
    if known is None or not _same_secret(known, token) or role not in ROLES:
        raise ValueError("unknown slice, or wrong token")


def _same_secret(known: str, said: Any) -> bool:
    """Compare in constant time; as bytes, for str with other letters than ASCII cannot be."""
    return isinstance(said, str) and hmac.compare_digest(known.encode(), said.encode(errors="replace"))


# The driver's key and certificate for its control channel: made when it starts to listen, kept in memory only.
#
# Owns how they are made. The dates say nothing (clocks of executors may be wrong, a driver may run for years): the
# certificate is trusted because the ticket names it, and ends with its driver.


_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "connectrt")])
_FROM, _UNTIL = dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


def new_identity() -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a new key, and its certificate (PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number(), _FROM, _UNTIL)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no client resumes a session: each process connects once
    with tempfile.TemporaryDirectory(prefix="connectrt-") as folder:  # 0700; ssl takes keys from files alone
        path = Path(folder, "identity.pem")
        path.write_bytes(certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context.load_cert_chain(path)
    return context, certificate.decode()
