"""Ours decide as Kafka's Java clients: which errors of the protocol pass, where the brokers are."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from confluent_kafka import KafkaError

from spark_connect_rt.config.bootstrap_servers import bootstrap_addresses, plain_servers
from spark_connect_rt.config.group_config import GroupSettings
from spark_connect_rt.config.worker_config import ConnectionSettings
from spark_connect_rt.errors import BadConfigError, RetriableError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.kafka.connection_problem import probe_tls
from spark_connect_rt.kafka.error_mapping import RETRIABLE, connect_error, is_retriable
from spark_connect_rt.kafka.membership.group_settings import member_settings
from spark_connect_rt.kafka.reading.fetch_settings import fetch_settings
from spark_connect_rt.kafka.writing.column_settings import settings_of
from tests.parity.golden.recordings import recording

JAVA = recording("clients")
# A caller of ours waits for the group and calls again; Java's catches it by its own name, before RetriableException.
ELSEWHERE_IN_JAVA = {"REBALANCE_IN_PROGRESS"}


def test_the_table_of_retriable_errors_is_javas() -> None:
    assert {name: code for code, name, retriable in JAVA["errors"] if retriable} == RETRIABLE


@pytest.mark.parametrize(("code", "name", "retriable"), JAVA["errors"])
def test_each_error_of_the_protocol_is_retriable_where_javas_is(code: int, name: str, retriable: bool) -> None:
    expected = retriable or name in ELSEWHERE_IN_JAVA
    assert isinstance(connect_error(KafkaError(code), "doing x"), RetriableError) == expected
    assert is_retriable(KafkaError(code)) == expected
    assert is_retriable(code) == retriable


@pytest.mark.parametrize("case", JAVA["addresses"], ids=lambda case: repr(case["servers"]))
def test_bootstrap_servers_are_read_as_javas(case: dict[str, Any]) -> None:
    servers = case["servers"]
    if "refused" in case:
        _, message = case["refused"]
        with pytest.raises(BadConfigError) as refused:
            bootstrap_addresses(servers)
        assert refused.value.problems["bootstrap.servers"][0].startswith(message)
        return
    found = bootstrap_addresses(servers)
    assert [[_as_java_prints(host), port] for host, port in found] == case["addresses"]
    assert bootstrap_addresses(plain_servers(servers)) == found


def _as_java_prints(host: str) -> str:
    return ":".join(f"{int(group, 16):x}" for group in ip_address(host).exploded.split(":")) if ":" in host else host


@pytest.mark.parametrize("servers", ["PLAINTEXT://127.0.0.1:9092", "[::1]:9092,SASL_SSL://broker:9093"])
def test_every_kind_of_client_gets_the_plain_addresses(servers: str) -> None:
    plain = plain_servers(servers)
    properties = {"bootstrap.servers": servers}
    assert {client_config(properties, role).settings["bootstrap.servers"] for role in ClientRole} == {plain}
    assert fetch_settings(properties).servers == plain
    assert settings_of(properties).client["bootstrap_servers"] == plain
    group = GroupSettings.of({"group.id": "g"})
    assert member_settings(group, ConnectionSettings.of(properties), properties).link.bootstrap_servers == plain


@pytest.mark.parametrize(
    "make",
    [
        lambda properties: client_config(properties, ClientRole.ADMIN),
        fetch_settings,
        settings_of,
        probe_tls,
        lambda properties: member_settings(GroupSettings.of({"group.id": "g"}), ConnectionSettings.of({}), properties),
    ],
)
def test_every_kind_of_client_refuses_an_address_without_a_port(make: Callable[[dict[str, str]], object]) -> None:
    with pytest.raises(BadConfigError, match=r"Invalid url in bootstrap\.servers: broker"):
        make({"bootstrap.servers": "broker"})
