"""OAUTHBEARER against a real broker: unsecured tokens, and signed ones of a real token endpoint."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.admin import KafkaAdmin
from tests.contract.group_member_contract import Herder, settled, until
from tests.integration.kafka.secure_kafka import OAUTH, REAUTH_MS, SecureKafka, joins, refused
from tests.support.group_members import new_member


def unsecured(secure: SecureKafka) -> dict[str, str]:
    return secure.settings(
        "UNSECURED",
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="worker" '
            'unsecuredLoginLifetimeSeconds="8";',
        },
    )


def signed(secure: SecureKafka, secret: str | None = None, **more: str) -> dict[str, str]:
    issuer = secure.issuer
    login = f'clientId="{issuer.client_id}" clientSecret="{secret or issuer.client_secret}" scope="kafka"'
    return secure.settings(
        "SIGNED",
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": OAUTH.replace("LoginModule", "LoginCallbackHandler"),
            "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
            "sasl.jaas.config": f"{OAUTH} required {login};",
            **more,
        },
    )


def test_an_unsecured_token_lets_every_client_in(secure: SecureKafka) -> None:
    joins(unsecured(secure))
    assert KafkaAdmin(unsecured(secure)).cluster_id()


def test_tokens_that_end_are_replaced_and_the_generation_is_kept(secure: SecureKafka) -> None:
    """The broker ends each session after REAUTH_MS; a token is used for 6.4 s."""
    member = new_member(unsecured(secure))
    herder = Herder("a", member)
    try:
        until(lambda: settled(herder), [herder])
        seen, settled_ms = list(herder.seen), member.now_ms()
        until(lambda: member.state.last_contact_ms > settled_ms + 4 * REAUTH_MS, [herder])
        assert herder.seen == seen
    finally:
        member.stop()


@pytest.mark.parametrize("more", [{}, {"sasl.oauthbearer.sub.claim.name": "aud"}])
def test_client_credentials_give_a_signed_token_that_the_broker_checks(
    secure: SecureKafka, more: dict[str, str]
) -> None:
    """Once with librdkafka's own fetching, once through the callback; the group always fetches by itself."""
    before = len(secure.issuer.requests)
    settings = signed(secure, **more)
    joins(settings)
    assert KafkaAdmin(settings).cluster_id()
    asked = secure.issuer.requests[before:]
    assert asked
    assert {form["grant_type"][0] for form in asked} == {"client_credentials"}
    assert {form["scope"][0] for form in asked} == {"kafka"}


def test_a_client_the_endpoint_does_not_know_is_refused_by_name(secure: SecureKafka) -> None:
    settings = signed(secure, secret="not-the-secret")
    refused(settings, r"sasl\.jaas\.config: the token endpoint .* answered 401 invalid_client")
    with pytest.raises(BadConfigError, match=r"sasl\.jaas\.config") as caught:
        KafkaAdmin(settings).check_reachable(20_000)
    assert "not-the-secret" not in str(caught.value)


def test_an_unsigned_token_is_refused_by_the_checking_listener(secure: SecureKafka) -> None:
    settings = unsecured(secure) | {
        "bootstrap.servers": signed(secure)["bootstrap.servers"],
        "security.protocol": "SASL_SSL",
    }
    refused(settings, r"sasl\.jaas\.config")
