"""Clients that the producers of one process share: one connection to a broker for all with the same settings.

A separate client costs each task a thread, an event loop, connections and the cluster's metadata. This module decides
which producers share a client, runs the thread with their event loop, and closes a client after its last producer.
``SharedColumnProducer`` at the end is a producer on such a client. It must not disturb its neighbours
(``ProducerClient``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS
from spark_connect_rt.kafka.writing.column_producer import CLOSE_LIMIT_S, ColumnProducer, ColumnSender, Produced
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings, settings_of
from spark_connect_rt.kafka.writing.producer_client import ProducerClient

CLIENT_ID = "connectrt-producers"
# Behind a pause so long, batches of several producers come at the instants that tasks share: all are taken then.
CALM_S, GATHER_S = 0.1, 0.01
OnEnd = Callable[[Exception], None]
log = logging.getLogger(__name__)


class SharedLoop:
    """An event loop on a separate thread, which lives as long as the process."""

    def __init__(self) -> None:
        """Make the loop and start its thread."""
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._users = set[OnEnd]()
        self._ended = False
        self._produced = list[tuple[ColumnSender, Produced]]()  # under the lock
        self._last: ColumnSender | None = None
        self._taken_s = 0.0
        self._several = False  # producers at the last instant
        self._thread = threading.Thread(target=self._run, name="shared-producers", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the loop still takes work."""
        return not self._ended

    def put(self, sender: ColumnSender, produced: Produced) -> None:
        """Send rows after all rows before them, if possible together with those of other producers. Any thread.

        The loop's thread wakes once for all of them. More often, it would compete with the producing threads for the
        interpreter.
        """
        with self._lock:
            self._produced.append((sender, produced))
            is_first = len(self._produced) == 1
        if is_first:
            self.loop.call_soon_threadsafe(self._gather)

    def _gather(self) -> None:
        if self._several and self.loop.time() - self._taken_s >= CALM_S:
            self.loop.call_later(GATHER_S, self._take)
        else:
            self._take()

    def _take(self) -> None:
        with self._lock:
            produced, self._produced = self._produced, []
        now_s, senders = self.loop.time(), {sender for sender, _ in produced}
        if self._last is not None and now_s - self._taken_s < CALM_S:
            senders.add(self._last)
        self._several, self._last, self._taken_s = len(senders) > 1, produced[-1][0], now_s
        for sender, rows in produced:
            sender.put(rows)

    def attach(self, on_end: OnEnd) -> None:
        """Call ``on_end`` with the error that ends the loop, at once if it has ended already."""
        with self._lock:
            self._users.add(on_end)
            ended = self._ended
        if ended:
            on_end(RuntimeError("the producers' event loop has ended"))

    def detach(self, on_end: OnEnd) -> None:
        """Do not call ``on_end`` any more."""
        with self._lock:
            self._users.discard(on_end)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self.loop.run_forever()
        except BaseException as caught:  # noqa: BLE001 - the top of the thread: its users are notified
            error = caught
        with self._lock:
            self._ended = True
            users = list(self._users)
        log.error("the producers' event loop ended: %r", error)
        for on_end in users:
            on_end(RuntimeError(f"the producers' event loop ended: {error!r}"))


class SharedClients:
    """Gives producers with equal settings the same client. Any thread."""

    def __init__(self) -> None:
        """Start without a client. The loop starts with the first one."""
        self._lock = threading.Lock()
        self._clients: dict[frozenset[tuple[str, str]], tuple[ColumnSettings, ProducerClient]] = {}
        self._loop: SharedLoop | None = None

    def take(self, config: Mapping[str, str]) -> tuple[ColumnSettings, ProducerClient, SharedLoop]:
        """Return settings, a client and its loop for properties that a ColumnProducer honours.

        The properties may differ in ``client.id``. ``give_back`` must follow. Raises BadConfigError.
        """
        said = {name: value for name, value in config.items() if name not in OFFSET_REPORTS}
        said["client.id"] = CLIENT_ID
        key = frozenset(said.items())
        with self._lock:
            if self._loop is None or not self._loop.alive:
                self._loop, self._clients = SharedLoop(), {}
            found = self._clients.get(key)
            if found is None or found[1].broken:
                settings = settings_of(said)
                found = self._clients[key] = (settings, ProducerClient(settings))
            settings, client = found
            client.users += 1
            return replace(settings, reports_offsets=OFFSET_REPORTS.items() <= config.items()), client, self._loop

    def give_back(self, client: ProducerClient) -> bool:
        """Note that a producer has ended. Returns whether it was the last of its client, which it must close then."""
        with self._lock:
            client.users -= 1
            if client.users:
                return False
            self._clients = {key: entry for key, entry in self._clients.items() if entry[1] is not client}
            return True


SHARED_CLIENTS = SharedClients()


class SharedColumnProducer(ColumnProducer):
    """A ColumnProducer on a shared client. An error or a close ends this producer alone, and the loop continues."""

    def __init__(
        self,
        settings: ColumnSettings,
        client: ProducerClient,
        loop: SharedLoop,
        give_back: Callable[[ProducerClient], bool],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """The first three arguments are the result of ``SharedClients.take``; ``give_back`` is its method."""
        self._client = client
        self._shared = loop
        self._give_back = give_back
        self._over = threading.Event()
        super().__init__(settings, clock_s)

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return ColumnSender(settings, self._delivered, self._client)

    def _start(self, sender: ColumnSender) -> None:
        self._sender = sender
        self._loop = self._shared.loop
        self._shared.attach(self._loop_ended)
        self._loop.call_soon_threadsafe(self._start_sending)

    def _hand_over(self, produced: Produced) -> None:
        self._shared.put(self._sender, produced)

    def close(self) -> None:
        """Drop the queued records, and give the client back."""
        if not self._over.is_set():
            self._loop.call_soon_threadsafe(lambda: self._sending.cancel())
            self._over.wait(CLOSE_LIMIT_S)

    # -- the loop's thread

    def _start_sending(self) -> None:
        self._sending = self._loop.create_task(self._sender.run())
        self._sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._shared.detach(self._loop_ended)
        if not sending.cancelled() and isinstance(error := sending.exception(), Exception):
            self._fail(error)
        if self._give_back(self._client):
            self._closing = self._loop.create_task(self._client.close())
        self._over.set()

    def _loop_ended(self, error: Exception) -> None:
        self._over.set()
        self._fail(error)
