"""Makes confluent-kafka clients from Java client properties.

Owns: the last step from properties to a live client, where librdkafka's own log goes, and the warning about
properties without effect (once per client kind and name). Must not: decide what a client is used for.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.kafka.error_mapping import kafka_error

# Keeps a client library's log short: one that cannot connect says so some twenty times a second, in the same words.


EACH_S = 30.0
MOST = 1_000  # different lines that are remembered; then all are forgotten
_NUMBERS = re.compile(r"\d+")


class RepeatedLogFilter(logging.Filter):
    """Lets a line pass once in so many seconds, numbers aside; the next one says how many were left out. Any thread."""

    def __init__(self, each_s: float = EACH_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Take the time between two lines that are alike, s."""
        super().__init__()
        self._each_s = each_s
        self._clock_s = clock_s
        self._seen: dict[str, tuple[float, int]] = {}  # line -> when it passed last, how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be written."""
        text, now_s = record.getMessage(), self._clock_s()
        alike = _NUMBERS.sub("#", text)
        passed_s, left_out = self._seen.get(alike, (now_s - self._each_s, 0))
        if now_s - passed_s < self._each_s:
            self._seen[alike] = (passed_s, left_out + 1)
            return False
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[alike] = (now_s, 0)
        if left_out:
            record.msg, record.args = "%s (and %d more like it since the last one)", (text, left_out)
        return True


_log = logging.getLogger(__name__)
_library_log = logging.getLogger("spark_connect_rt.kafka.librdkafka")
_library_log.addFilter(RepeatedLogFilter())
_warned: set[tuple[ClientRole, str]] = set()

_CALLBACKS = ("error_cb", "on_delivery", "stats_cb")
QUIET = {"log.connection.close": "false"}


def unmasked(base: type[Any], *names: str) -> type[Any]:
    """Return a subclass whose methods of these names raise the client's error where Python hides it.

    A fatal error of librdkafka is raised by the client while it serves callbacks. If more callbacks wait, they are
    called with that error pending; the first call in them raises a SystemError, and the error is only its cause.
    """

    def unmasking(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def calling(*arguments: Any, **named: Any) -> Any:
            try:
                return call(*arguments, **named)
            except SystemError as error:
                if isinstance(error.__cause__, KafkaException):
                    raise error.__cause__ from None
                raise

        return calling

    return type(base.__name__, (base,), {name: unmasking(getattr(base, name)) for name in names})


_TRANSACTIONS = ("init_transactions", "commit_transaction", "abort_transaction", "send_offsets_to_transaction")
_Producer = unmasked(Producer, "poll", "flush", *_TRANSACTIONS)
_Consumer = unmasked(Consumer, "poll", "consume", "commit", "close")


def make_producer(properties: Mapping[str, str], settings: Mapping[str, Any]) -> Producer:
    """Return a producer; ``settings`` are librdkafka's (callbacks too) and win. Raises BadConfigError."""
    return _make(ClientRole.PRODUCER, _Producer, properties, settings)


def make_consumer(properties: Mapping[str, str], settings: Mapping[str, Any]) -> Consumer:
    """Return a consumer that never commits by itself; ``settings`` are librdkafka's and win.

    Raises BadConfigError.
    """
    own = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", **settings}
    return _make(ClientRole.CONSUMER, _Consumer, properties, own)


def make_admin(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> AdminClient:
    """Return an admin client; ``settings`` are librdkafka's and win. Raises BadConfigError."""
    return _make(ClientRole.ADMIN, AdminClient, properties, settings or {})


def make_offsets_client(properties: Mapping[str, str]) -> Consumer:
    """Return a consumer of no group, with an admin client's properties, to ask for offsets. Raises BadConfigError.

    Offsets of open transactions count.
    """
    own = {"group.id": "unused", "isolation.level": "read_uncommitted", "enable.auto.commit": "false"}
    return _make(ClientRole.ADMIN, _Consumer, properties, own)


def _make(role: ClientRole, client: Callable[..., Any], properties: Mapping[str, str], extra: Mapping[str, Any]) -> Any:
    config = client_config(properties, role)
    _warn(role, config.unmapped)
    settings = {**QUIET, **config.settings, **extra}
    if config.tokens is not None:
        # Imported when needed: executors start often, and need not have aiokafka.
        from spark_connect_rt.base.security.oauth import token_callback, token_source

        settings["oauth_cb"] = token_callback(token_source(config.tokens))
    settings.update({name: _not_owning(settings[name]) for name in _CALLBACKS if name in settings})
    try:
        return client(settings, logger=_library_log)
    except KafkaException as error:
        raise BadConfigError({role.value: [kafka_error(error).str()]}) from error


def _not_owning(callback: Callable[..., None]) -> Callable[..., None]:
    """Return a callback that does not keep the owner of a method alive.

    The owner refers to its client, the client to its callbacks: in such a circle a client that was not closed would be
    destroyed by Python's cyclic collector, in any thread.
    """
    if not inspect.ismethod(callback):
        return callback
    weak = weakref.WeakMethod(callback)

    def call(*arguments: Any) -> None:
        if (method := weak()) is not None:
            method(*arguments)

    return call


def _warn(role: ClientRole, unmapped: Mapping[str, str]) -> None:
    for name, why in sorted(unmapped.items()):
        if (role, name) not in _warned:
            _warned.add((role, name))
            _log.warning("%s property %s has no effect: %s", role.value, name, why)
