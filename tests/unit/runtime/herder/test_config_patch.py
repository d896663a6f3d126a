from spark_connect_rt.runtime.herder.herder_requests import patched_config


def test_a_value_replaces_or_adds_and_none_removes() -> None:
    raw = {"name": "a", "keep": "1", "change": "2", "remove": "3"}
    patch = {"change": "20", "remove": None, "new": "4", "never there": None}
    assert patched_config(raw, patch) == {"name": "a", "keep": "1", "change": "20", "new": "4"}
    assert patched_config(raw, {}) == raw


def test_the_order_is_that_of_java_s_copied_map() -> None:
    """Recorded from Java 4.1.1: a copy's table is smaller than that of a map that grew."""
    raw = {"connector.class": "c", "tasks.max": "1", "file": "f", "topic": "t", "name": "odd"}
    small = ["connector.class", "name", "topic", "file", "tasks.max"]
    assert list(patched_config(raw, {})) == small
    assert list(patched_config(raw, {"batch.size": "7"})) == [*small, "batch.size"]
    grown = {**raw, "batch.size": "7"}
    assert list(patched_config(grown, {"batch.size": None})) == [
        "connector.class",
        "file",
        "tasks.max",
        "name",
        "topic",
    ]
