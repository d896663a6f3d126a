"""Where a sink's chain is cut that Java does not have all of."""

from __future__ import annotations

from spark_connect_rt.engine.java_host.chains import JSON, cut_chain

CONNECTOR = {
    "name": "s",
    "transforms": "a,b,c",
    "transforms.a.type": "java.A",
    "transforms.a.predicate": "p",
    "transforms.b.type": "java.B",
    "transforms.c.type": "java.C",
    "transforms.c.field": "f",
    "transforms.c.predicate": "q",
    "predicates": "p,q",
    "predicates.p.type": "java.P",
    "predicates.q.type": "java.Q",
    "value.converter": "java.V",
    "value.converter.x": "1",
}
WORKER = {"key.converter": "java.K"}
AT_CROSSING = {
    "key.converter": JSON,
    "value.converter": JSON,
    "header.converter": JSON,
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    "header.converter.schemas.enable": "true",
}


def in_java(name: str, version: str | None) -> bool:
    return name.startswith("java.")


def test_a_chain_that_java_has_stays_whole() -> None:
    assert cut_chain(CONNECTOR, WORKER, in_java) is None


def test_it_is_cut_behind_the_last_part_that_java_does_not_have() -> None:
    cut = cut_chain(CONNECTOR | {"transforms.b.type": "B"}, WORKER, in_java)
    assert cut is not None
    assert cut.python["transforms"] == "a,b"
    assert (cut.python["predicates"], cut.python["value.converter"]) == ("p", "java.V")
    assert "transforms.c.type" not in cut.python
    assert cut.java == AT_CROSSING | {
        "name": "s",
        "transforms": "c",
        "transforms.c.type": "java.C",
        "transforms.c.field": "f",
        "transforms.c.predicate": "q",
        "predicates": "q",
        "predicates.q.type": "java.Q",
    }


def test_a_predicate_and_a_converter_of_pythons_alone_cut_it_too() -> None:
    cut = cut_chain(CONNECTOR | {"predicates.q.type": "Q"}, WORKER, in_java)
    assert cut is not None
    assert (cut.python["transforms"], cut.java.get("transforms")) == ("a,b,c", None)
    cut = cut_chain(CONNECTOR, {"key.converter": "K"}, in_java)
    assert cut is not None
    assert (cut.python.get("transforms"), cut.java["transforms"]) == (None, "a,b,c")
