"""OAUTHBEARER: which settings say where tokens come from, and what a token looks like."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.base.security.oauth import (
    TokenSettings,
    TokenSource,
    TokenUnavailableError,
    native_settings,
    token_callback,
    token_of_text,
    token_settings,
    unsecured_token,
)
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.client_config import ClientRole, client_config

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token"}


def jaas(**options: str) -> dict[str, str]:
    return {"sasl.jaas.config": f"{MODULE} " + " ".join(f'{name}="{value}"' for name, value in options.items()) + ";"}


def claims_of(text: str) -> dict[str, Any]:
    head, body, signature = text.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert signature == ""
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def test_an_unsecured_token_has_the_claims_that_java_gives_it() -> None:
    settings = token_settings(
        jaas(
            unsecuredLoginStringClaim_sub="worker",
            unsecuredLoginNumberClaim_level="2",
            unsecuredLoginListClaim_scope="|a|b",
            unsecuredLoginLifetimeSeconds="60",
            unsecuredLoginExtension_tenant="t1",
        )
    )
    token = unsecured_token(settings, now_s=1_000.0)
    assert claims_of(token.text) == {"sub": "worker", "level": 2.0, "scope": ["a", "b"], "iat": 1000.0, "exp": 1060.0}
    assert (token.principal, token.expires_s) == ("worker", 1060.0)
    assert settings.extensions == (("tenant", "t1"),)


def test_the_principals_claim_can_have_another_name() -> None:
    named = jaas(unsecuredLoginPrincipalClaimName="user", unsecuredLoginStringClaim_user="u")
    assert unsecured_token(token_settings(named), 0.0).principal == "u"


@pytest.mark.parametrize(
    ("properties", "setting", "told"),
    [
        ({}, "sasl.jaas.config", "unsecuredLoginStringClaim_sub"),
        (jaas(unsecuredLoginStringClaim_sub="u", unsecuredLoginLifetimeSeconds="x"), "sasl.jaas.config", "a number"),
        (jaas(unsecuredLoginStringClaim_sub="u", unsecuredLoginNumberClaim_exp="1"), "sasl.jaas.config", "claim exp"),
        (URL | jaas(clientId="i"), "sasl.jaas.config", "clientSecret"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "ftp://x"} | jaas(clientId="i", clientSecret="s"),
            "sasl.oauthbearer.token.endpoint.url",
            "http, https or file",
        ),
        (
            jaas(unsecuredLoginStringClaim_sub="u") | {"sasl.login.callback.handler.class": "my.Handler"},
            "sasl.login.callback.handler.class",
            "my.Handler is a Java class",
        ),
        (
            URL | {"sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.x.JwtBearerJwtRetriever"},
            "sasl.oauthbearer.jwt.retriever.class",
            "cannot run here",
        ),
        ({"sasl.jaas.config": 'a.PlainLoginModule required password="hush";'}, "sasl.jaas.config", "not PlainLogin"),
    ],
)
def test_settings_without_a_token_are_refused_by_name(properties: dict[str, str], setting: str, told: str) -> None:
    with pytest.raises(BadConfigError, match=told) as caught:
        token_settings(properties)
    assert list(caught.value.problems) == [setting]
    assert "hush" not in str(caught.value)


def test_settings_win_over_the_jaas_line_and_secrets_do_not_show() -> None:
    own = {f"sasl.oauthbearer.client.credentials.client.{part}": f"kip-1139-{part}" for part in ("id", "secret")}
    settings = token_settings(URL | own | jaas(clientId="i", clientSecret="s", scope="k", extension_x="1"))
    assert (settings.client_id, settings.client_secret, settings.scope) == ("kip-1139-id", "kip-1139-secret", "k")
    assert "kip-1139-secret" not in repr(settings)


def test_librdkafka_fetches_plain_tokens_itself_and_is_handed_the_others() -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    fetched = client_config(properties | URL | jaas(clientId="i", clientSecret="s"), ClientRole.ADMIN)
    assert fetched.tokens is None
    assert fetched.settings["sasl.oauthbearer.method"] == "oidc"
    handed = client_config(properties | jaas(unsecuredLoginStringClaim_sub="u"), ClientRole.ADMIN)
    assert handed.tokens is not None
    assert "sasl.oauthbearer.method" not in handed.settings
    for more in ({"sasl.oauthbearer.header.urlencode": "true"}, {"sasl.oauthbearer.sub.claim.name": "user"}):
        assert native_settings(token_settings(URL | jaas(clientId="i", clientSecret="s") | more)) is None


def test_a_token_is_kept_for_four_fifths_of_its_life() -> None:
    now = [1_000.0]
    source = TokenSource(token_settings(jaas(unsecuredLoginStringClaim_sub="u")), lambda: now[0])
    first = source.token()
    now[0] += 3_600 * 0.8 - 1
    assert source.token() is first
    now[0] += 2
    assert source.token().expires_s == now[0] + 3_600
    assert token_callback(source)(None) == (source.token().text, now[0] + 3_600, "u", {})


def test_a_token_in_a_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = token_settings({"sasl.oauthbearer.token.endpoint.url": file.as_uri()})
    now = [0.0]
    source = TokenSource(settings, lambda: now[0])
    with pytest.raises(TokenUnavailableError, match="No such file"):
        source.token()
    for subject, expires_s in (("one", 100), ("two", 200)):
        body = base64.urlsafe_b64encode(json.dumps({"sub": subject, "exp": expires_s}).encode()).decode().rstrip("=")
        file.write_text(f"e30.{body}.c2ln\n", encoding="ascii")
        now[0] = expires_s - 100
        assert source.token().principal == subject


@pytest.mark.parametrize("text", ["", "opaque", "a.b.c", "e30.e30.", "e30.W10."])
def test_token_without_expiry_is_not_used(text: str) -> None:
    with pytest.raises(TokenUnavailableError, match="not a JWT"):
        token_of_text(text, TokenSettings(endpoint="https://issuer"))
