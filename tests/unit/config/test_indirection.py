"""``${alias:path:key}``: found, replaced once, put back."""

from __future__ import annotations

from collections.abc import Mapping, Set

from spark_connect_rt.config.secrets import Reference, references, resolve, restore

CALLS: list[tuple[str, str, Set[str]]] = []
SECRETS = {("file", "/s"): {"user": "ann", "password": "${file:/s:user}"}, ("env", ""): {"HOME": "/root"}}


def lookup(alias: str, path: str, keys: Set[str]) -> Mapping[str, str]:
    CALLS.append((alias, path, keys))
    return {key: value for key, value in SECRETS.get((alias, path), {}).items() if key in keys}


def test_references_are_found_with_and_without_path() -> None:
    assert references("a ${file:/s:user} ${env:HOME} $ {} ${no}") == [
        Reference("file", "/s", "user"),
        Reference("env", "", "HOME"),
    ]
    assert references(None) == []


def test_values_are_put_in_once_and_what_is_unknown_stays() -> None:
    CALLS.clear()
    config = {
        "url": "${file:/s:user}@${env:HOME}",
        "pw": "${file:/s:password}",
        "x": "${vault:p:k} ${file:/s:none}",
        "n": "1",
    }
    assert resolve(config, lookup) == {
        "url": "ann@/root",
        "pw": "${file:/s:user}",  # a looked-up value is not searched again
        "x": "${vault:p:k} ${file:/s:none}",
        "n": "1",
    }
    assert ("file", "/s", frozenset({"user", "password", "none"})) in CALLS
    assert len(CALLS) == 3


def test_task_configs_get_their_references_back() -> None:
    connector = {"pw": "${file:/s:user}", "n": "1"}
    assert restore({"pw": "ann", "n": "1", "task": "0"}, connector, resolve(connector, lookup)) == {
        "pw": "${file:/s:user}",
        "n": "1",
        "task": "0",
    }
    assert restore({"pw": "other"}, connector, resolve(connector, lookup)) == {"pw": "other"}
