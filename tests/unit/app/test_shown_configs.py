"""A connector's configuration as pages show it: no secret, whatever its class declares or does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from spark_connect_rt.base import hidden_values
from spark_connect_rt.operations.overview import wiring as overview
from spark_connect_rt.operations.overview.wiring import ShownConfigs
from spark_connect_rt.topics.config_diff import DeclaredSettings

CONFIG = {
    "connector.class": "C",
    "plain": "x",
    "pin": "4711",
    "of": "${vault:a:b}",
    "url": "jdbc:x://ann:horse@h/d",
    "consumer.override.sasl.jaas.config": 'x required username="u" password="battery";',
    "note": "says staple-secret aloud",
}
KNOWN = DeclaredSettings({"plain": False, "pin": True, "of": True, "url": False, "note": False}, complete=True)


def test_secrets_are_hidden_and_references_stay() -> None:
    hidden_values.remember(["staple-secret"])
    try:
        shown = ShownConfigs(lambda _: KNOWN)(CONFIG)
    finally:
        hidden_values.forget()
    assert (shown["plain"], shown["of"]) == ("x", "${vault:a:b}")
    assert shown["pin"] == shown["url"] == shown["consumer.override.sasl.jaas.config"] == "[hidden]"
    assert shown["note"] == "says [hidden] aloud"
    assert list(shown) == list(CONFIG)


def test_undeclared_settings_are_hidden_and_the_plugin_is_not_asked_for_every_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def declared(config: Mapping[str, str]) -> DeclaredSettings:
        asked.append(config["connector.class"])
        return DeclaredSettings() if len(asked) == 1 else KNOWN

    shown = ShownConfigs(declared)
    for _ in range(5):
        assert shown(CONFIG)["plain"] == "[hidden]"
    assert asked == ["C"]
    assert shown({**CONFIG, "connector.class": "D"})["plain"] == "x"
    monkeypatch.setattr(overview, "ASK_AGAIN_S", 0.0)
    assert ShownConfigs(lambda _: DeclaredSettings())(CONFIG)["plain"] == "[hidden]"
