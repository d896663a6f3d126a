"""JAAS lines and key stores as librdkafka's settings; secrets never show in messages."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.security.sasl import parse_jaas
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.client_config import ClientRole, client_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def of(**properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return client_config(named, ClientRole.ADMIN).settings


def test_a_jaas_line_is_read_with_quotes_and_escapes() -> None:
    line = f""" {PLAIN} required username="al ice" password='a"b=;c' """ + r'other="x\"y" ; '
    assert parse_jaas(line) == (
        "PlainLoginModule",
        {"username": "al ice", "password": 'a"b=;c', "other": 'x"y'},
    )


@pytest.mark.parametrize(
    "line", ["", "Module", f"{PLAIN} required", f'{PLAIN} required a="b', f'{PLAIN} required a "secret" x;']
)
def test_a_broken_jaas_line_is_refused_without_showing_it(line: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        parse_jaas(line)
    assert list(caught.value.problems) == ["sasl.jaas.config"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (f"{PLAIN} required username=u password=12345;", "password"),
        (f"{PLAIN} required password=/secret username=u;", "password"),
        (f"{PLAIN} required username=u password=word secret;", "password"),
        (f"{PLAIN} required username=u password=a#secret;", "password"),
        ("com.sun.security.auth.module.Krb5LoginModule required keyTab=/secret principal=p;", "keyTab"),
    ],
)
def test_a_value_that_must_be_quoted_is_asked_for_by_the_name_of_its_option(line: str, option: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        parse_jaas(line)
    assert f'Put the value in quotes: {option}="..."' in str(caught.value)
    assert "secret" not in str(caught.value)


def test_user_and_password_reach_the_client() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    found = of(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    assert found["security.protocol"] == "sasl_ssl"
    assert (found["sasl.mechanism"], found["sasl.username"], found["sasl.password"]) == (
        "SCRAM-SHA-512",
        "u",
        "p",
    )


def test_oauth_client_credentials_use_oidc() -> None:
    jaas = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="i" clientSecret="s" scope="k";'
    )
    found = of(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=jaas,
        sasl_oauthbearer_token_endpoint_url="https://i/t",
    )
    assert found["sasl.oauthbearer.method"] == "oidc"
    assert found["sasl.oauthbearer.client.secret"] == "s"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://i/t"


def test_a_principal_that_would_reach_a_shell_is_refused() -> None:
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required principal="u; rm -rf x" keyTab="/k";'
    with pytest.raises(BadConfigError, match="not allowed"):
        of(security_protocol="SASL_PLAINTEXT", sasl_jaas_config=jaas)


def test_unknown_ways_to_log_in_are_refused() -> None:
    with pytest.raises(BadConfigError, match="AWS_MSK_IAM"):
        of(security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM")
    with pytest.raises(BadConfigError, match="login module MyModule"):
        of(security_protocol="SASL_SSL", sasl_jaas_config='a.MyModule required password="hush";')


def test_inline_pem_is_passed_on() -> None:
    found = of(
        security_protocol="SSL",
        ssl_truststore_certificates="CA",
        ssl_keystore_key="KEY",
        ssl_keystore_certificate_chain="CHAIN",
        ssl_key_password="p",
        ssl_endpoint_identification_algorithm="",
    )
    assert found["ssl.ca.pem"] == "CA"
    assert (found["ssl.key.pem"], found["ssl.certificate.pem"], found["ssl.key.password"]) == ("KEY", "CHAIN", "p")
    assert found["ssl.endpoint.identification.algorithm"] == "none"


def test_security_settings_without_a_secure_protocol_have_no_effect() -> None:
    assert of(ssl_truststore_location="/a.jks", sasl_jaas_config="nonsense") == {}
