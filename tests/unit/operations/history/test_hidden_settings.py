"""No secret stands in the history: by its type, its name, its client, or what it carries inside."""

from __future__ import annotations

import pytest

from spark_connect_rt.topics.config_diff import DeclaredSettings, changed_unseen, hidden_settings

DECLARED = DeclaredSettings(
    {"db.password": True, "token.field": False, "connection.url": False, "key.converter": False}, True
)
UNKNOWN = DeclaredSettings()


@pytest.mark.parametrize(
    ("name", "value", "declared", "is_hidden"),
    [
        ("db.password", "p", DECLARED, True),
        ("db.password", "", DECLARED, False),
        ("db.password", "${file:/run/secrets:p}", DECLARED, False),
        ("db.password", "x${file:/run/secrets:p}", DECLARED, True),
        ("token.field", "id", DECLARED, False),  # declared, and no secret
        ("api.token", "t", DECLARED, True),  # not declared, named like one
        ("aws.access.key.id", "t", DECLARED, True),
        ("key.converter", "org.x", DECLARED, False),
        ("some.thing", "x", DECLARED, False),
        ("some.thing", "x", UNKNOWN, True),  # nobody here can say
        ("topics", "t", UNKNOWN, False),
        ("connection.url", "jdbc:postgresql://h/db?user=u&password=p", DECLARED, True),
        ("connection.url", "postgresql://u:p@h/db", DECLARED, True),
        ("connection.url", "postgresql://h:5432/db", DECLARED, False),
        ("producer.override.sasl.jaas.config", 'x required password="p";', DECLARED, True),
        ("consumer.override.ssl.key.password", "p", DECLARED, True),
        ("connection.url", "${env:URL}", DECLARED, False),
    ],
)
def test_hidden_settings_are_found_by_name_and_value(
    name: str, value: str, declared: DeclaredSettings, is_hidden: bool
) -> None:
    assert hidden_settings({name: value}, declared) == (frozenset({name}) if is_hidden else frozenset())


def test_a_hidden_value_that_changed_is_named() -> None:
    assert changed_unseen({"p": "1", "q": "1"}, {"p": "2", "q": "1"}, ["p", "q", "r"]) == ("p",)
    assert changed_unseen(None, {"p": "2"}, ["p"]) == ()
