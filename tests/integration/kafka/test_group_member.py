"""Members of a Connect group on a real broker: the contract, and what only a broker can do."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group.member import ContactLost, GroupMember
from spark_connect_rt.kafka.membership.group_member import KafkaGroupMember
from tests.contract.group_member_contract import (
    REBALANCE_MS,
    SESSION_MS,
    GroupMemberContract,
    Herder,
    settled,
    until,
)
from tests.support.group_members import new_member


def config(bootstrap: str, group: str, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": "500",
        "rebalance.timeout.ms": str(REBALANCE_MS),
        **more,
    }


def kill(member: KafkaGroupMember) -> None:
    """End a member's I/O as a killed process would: no LeaveGroup, connections closed by the system."""
    loop, thread = member._loop, member._thread
    assert loop is not None
    assert thread is not None
    member._loop = member._thread = None
    loop.call_soon_threadsafe(member._io.end)
    thread.join(5)
    assert not thread.is_alive()


class TestKafkaGroupMember(GroupMemberContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: EmbeddedKafka) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.group = f"connect-{uuid.uuid4()}"

    def new_member(self, name: str) -> GroupMember:
        return new_member(config(self.bootstrap, self.group), client_id=name)

    def vanish(self, member: GroupMember) -> None:
        assert isinstance(member, KafkaGroupMember)
        kill(member)


class Proxy:
    """A TCP relay in front of a broker that can fall silent without closing anything, as a hung host does.

    The broker's own address is advertised, so the relay is put in as the coordinator's by the test.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self) -> None:
        self._open.clear()

    def recover(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """Close every connection; new ones are welcome."""
        for sock in self._sockets:
            sock.close()

    def close(self) -> None:
        self._closed = True
        self._open.set()
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += [near, far]
            for end, other in ((near, far), (far, near)):
                threading.Thread(target=self._relay, args=(end, other), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@pytest.fixture
def proxy(broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A relay through which every connection of a member goes, whatever address the broker advertises."""
    from spark_connect_rt.kafka.membership import group_link

    relay = Proxy(("127.0.0.1", broker.port))
    real = group_link._connect

    async def through(settings: object, host: str, port: int, limit_ms: int) -> object:
        conn = await real(settings, "127.0.0.1", relay.port, limit_ms)  # type: ignore[arg-type]
        conn._host, conn._port = host, port
        return conn

    monkeypatch.setattr(group_link, "_connect", through)
    yield relay
    relay.close()


def test_a_silent_coordinator_stops_work_a_fifth_before_the_session_ends(broker: EmbeddedKafka, proxy: Proxy) -> None:
    member = new_member(config(broker.bootstrap_servers, f"connect-{uuid.uuid4()}"))
    a = Herder("a", member)
    try:
        until(a.is_settled, [a])
        proxy.hang()
        until(lambda: a.saw(ContactLost), [a])
        silent_ms = member.now_ms() - member.state.last_contact_ms
        lease_ms = member.settings.timing.lease_ms
        assert lease_ms == SESSION_MS * 4 // 5
        assert lease_ms <= silent_ms <= SESSION_MS
        proxy.recover()
        until(a.is_settled, [a])
    finally:
        member.stop()


def test_a_broken_connection_costs_no_generation(broker: EmbeddedKafka, proxy: Proxy) -> None:
    member = new_member(config(broker.bootstrap_servers, f"connect-{uuid.uuid4()}"))
    a = Herder("a", member)
    try:
        until(a.is_settled, [a])
        seen = list(a.seen)
        contact_ms = member.state.last_contact_ms
        proxy.cut()
        until(lambda: member.state.last_contact_ms > contact_ms + 1_000, [a])
        assert a.seen == seen
        assert a.is_settled()
    finally:
        member.stop()


def test_a_coordinator_that_comes_up_later_is_found(broker: EmbeddedKafka, proxy: Proxy) -> None:
    proxy.hang()
    member = new_member(config(broker.bootstrap_servers, f"connect-{uuid.uuid4()}"))
    a = Herder("a", member)
    try:
        assert list(member.poll(200)) == []
        proxy.recover()
        until(a.is_settled, [a])
    finally:
        member.stop()


def test_no_broker_at_all_is_not_an_error_and_stop_is_quick(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    member = new_member(config(f"127.0.0.1:{port}", "connect-nobody"))
    with caplog.at_level(logging.WARNING):
        member.start()
        assert list(member.poll(500)) == []
    member.stop()
    assert f"127.0.0.1:{port}" in caplog.text


def test_a_session_the_broker_does_not_allow_is_refused_by_name(broker: EmbeddedKafka) -> None:
    settings = config(broker.bootstrap_servers, f"connect-{uuid.uuid4()}")
    member = new_member(settings | {"session.timeout.ms": "1000", "heartbeat.interval.ms": "300"})
    a = Herder("a", member)
    try:
        with pytest.raises(BadConfigError, match=r"session\.timeout\.ms"):
            until(lambda: False, [a])
    finally:
        member.stop()


def test_a_group_of_another_kind_is_refused_by_name(broker: EmbeddedKafka) -> None:
    """A consumer group of the same name speaks another protocol type."""
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"taken-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    member = new_member(config(broker.bootstrap_servers, name))
    assigned = threading.Event()
    try:
        consumer.subscribe([name], on_assign=lambda *_: assigned.set())
        while not assigned.is_set():
            consumer.poll(0.1)
        a = Herder("a", member)
        with pytest.raises(BadConfigError, match="no protocol of this worker"):
            until(lambda: False, [a])
    finally:
        member.stop()
        consumer.close()


def test_five_members_settle_and_share(broker: EmbeddedKafka) -> None:
    group = f"connect-{uuid.uuid4()}"
    herders = [
        Herder(f"m{n}", new_member(config(broker.bootstrap_servers, group), client_id=f"m{n}")) for n in range(5)
    ]
    try:
        until(lambda: settled(*herders), herders)
        parts = sorted(herder.last().assignment for herder in herders)  # type: ignore[union-attr]
        assert parts == [f"work of m{n} sessioned".encode() for n in range(5)]
    finally:
        for herder in herders:
            herder.member.stop()
