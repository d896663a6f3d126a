"""Worker properties as a membership's times, limits and security arguments."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from spark_connect_rt.config.group_config import GroupSettings
from spark_connect_rt.config.worker_config import ConnectionSettings
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.kafka.group_security import connection_arguments
from spark_connect_rt.kafka.membership.group_settings import member_settings
from tests.support.group_members import settings_of

LEAST = {"group.id": "g", "bootstrap.servers": "one:9092,two:9092"}


def test_connects_defaults() -> None:
    settings = settings_of(LEAST)
    assert settings.timing == Timing(10_000, 3_000, 60_000)
    assert settings.link.bootstrap_servers == "one:9092,two:9092"
    assert settings.link.security == {"security_protocol": "PLAINTEXT"}


def test_a_quick_request_fails_well_within_the_session() -> None:
    link = settings_of(LEAST | {"session.timeout.ms": 6_000}).link
    assert link.answer_limit_ms == 3_000
    assert link.setup_limit_ms == 3_000
    assert settings_of(LEAST | {"request.timeout.ms": "1000"}).link.answer_limit_ms == 1_000


def test_a_waiting_request_outlives_the_rebalance() -> None:
    assert settings_of(LEAST).link.rebalance_limit_ms == 65_000
    assert settings_of(LEAST | {"request.timeout.ms": 90_000}).link.rebalance_limit_ms == 90_000


def test_servers_and_the_client_id() -> None:
    settings = settings_of({"group.id": "g", "bootstrap.servers": "a:1, b:2", "client.id": ""})
    assert settings.link.bootstrap_servers == "a:1,b:2"
    assert settings.link.client_id == "connect"
    assert settings_of(LEAST, "worker-7").link.client_id == "worker-7"


def test_back_off_doubles_up_to_its_maximum() -> None:
    settings = settings_of(LEAST)
    assert [settings.backoff_ms(n, 0.5) for n in (1, 2, 3, 4, 5, 6, 400)] == [100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_every_problem_is_reported_at_once() -> None:
    group = GroupSettings.of(LEAST | {"rebalance.timeout.ms": "0", "heartbeat.interval.ms": "10000"})
    with pytest.raises(BadConfigError) as caught:
        member_settings(replace(group, group_id=""), ConnectionSettings.of({"request.timeout.ms": "0"}), {})
    assert set(caught.value.problems) == {
        "group.id",
        "bootstrap.servers",
        "heartbeat.interval.ms",
        "rebalance.timeout.ms",
        "request.timeout.ms",
    }


def test_a_heartbeat_slower_than_the_session_is_refused() -> None:
    with pytest.raises(BadConfigError, match=r"heartbeat\.interval\.ms"):
        settings_of(LEAST | {"heartbeat.interval.ms": "10000"})


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";'


def test_sasl_user_and_password() -> None:
    arguments = connection_arguments(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
        }
    )
    assert arguments == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": 'p"w',
    }


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"security.protocol": "PLAIN"}, "security.protocol"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "DIGEST"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, "sasl.jaas.config"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/t.jks"}, "ssl.truststore.location"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/nowhere/k.p12"}, "ssl.keystore.location"),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/nowhere/k.pem", "ssl.keystore.type": "PEM"},
            "ssl.keystore.location",
        ),
    ],
)
def test_unsupported_setting_is_refused_by_name(config: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        connection_arguments(config)
    assert list(caught.value.problems) == [named]


def test_kerberos_without_its_library_is_refused_by_the_librarys_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.kafka.group_security.find_spec", lambda name: None)
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(BadConfigError, match="library gssapi") as caught:
        connection_arguments(config)
    assert list(caught.value.problems) == ["sasl.mechanism"]


def test_kerberos_with_its_library_goes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.kafka.group_security.find_spec", lambda name: object())
    named = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "broker"}
    arguments = connection_arguments(named)  # GSSAPI is Java's default mechanism
    assert (arguments["sasl_mechanism"], arguments["sasl_kerberos_service_name"]) == ("GSSAPI", "broker")


KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


def test_kerberos_takes_the_keytab_of_the_jaas_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spark_connect_rt.kafka.group_security.find_spec", lambda name: object())
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "")
    keytab = tmp_path / "worker.keytab"
    line = f'{KRB5} required useKeyTab=true keyTab="{keytab}" principal="worker@TEST";'
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": line}
    with pytest.raises(BadConfigError, match="cannot be read") as caught:
        connection_arguments(config)
    assert list(caught.value.problems) == ["sasl.jaas.config"]
    keytab.touch()
    connection_arguments(config)
    assert os.environ["KRB5_CLIENT_KTNAME"] == f"FILE:{keytab}"


def test_tls_checks_the_host_name_by_default() -> None:
    context = connection_arguments({"security.protocol": "SSL"})["ssl_context"]
    assert context.check_hostname
    config = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert not connection_arguments(config)["ssl_context"].check_hostname
