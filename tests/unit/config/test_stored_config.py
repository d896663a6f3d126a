"""A stored configuration can be compared, forwarded and resolved, and no setting can be read of it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig

TEXTS = {"topics": "${file:f:topics}", "name": "a"}


def test_no_setting_can_be_read_of_a_stored_configuration() -> None:
    stored: Any = StoredConfig(TEXTS)
    assert not isinstance(stored, Mapping)
    with pytest.raises(TypeError):
        stored["topics"]
    with pytest.raises(AttributeError):
        stored.get("topics")
    with pytest.raises(TypeError):
        dict(stored)


def test_values_come_from_what_resolves_it() -> None:
    def resolve(texts: Mapping[str, str], worker: str) -> dict[str, str]:
        return {name: text.replace("${file:f:topics}", worker) for name, text in texts.items()}

    assert StoredConfig(TEXTS).resolved(resolve, "in") == {"topics": "in", "name": "a"}
    assert StoredConfig(TEXTS).only(["topics", "absent"]).resolved(resolve, worker="in") == {"topics": "in"}


def test_it_equals_the_same_texts_and_may_be_asked_which_settings_there_are() -> None:
    stored = StoredConfig(TEXTS)
    assert stored == StoredConfig(dict(TEXTS)) == TEXTS
    assert stored != StoredConfig({**TEXTS, "name": "b"})
    assert hash(stored) == hash(StoredConfig(dict(TEXTS)))
    assert pickle.loads(pickle.dumps(stored)) == stored
    assert ("topics" in stored, "other" in stored) == (True, False)
    assert (bool(stored), bool(NO_SETTINGS)) == (True, False)


def test_repr_of_a_stored_config_has_no_values() -> None:
    assert repr(StoredConfig({"password": "secret"})) == "StoredConfig(['password'])"
