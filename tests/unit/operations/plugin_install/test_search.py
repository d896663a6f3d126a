"""What is found: by Maven Central's index, else in the list that comes along, and why the list."""

from __future__ import annotations

import pytest

from spark_connect_rt.operations.plugin_install.actions import FoundPlugin, search_plugins, well_known


def test_an_index_that_answers_is_believed() -> None:
    asked: list[str] = []
    found = [FoundPlugin("g:a:1", "jar")]

    def ask(words: str) -> list[FoundPlugin]:
        asked.append(words)
        return found

    told = search_plugins("some words", ask)
    assert (asked, told.plugins) == (["some words"], found)
    assert told.origin == "found by Maven Central's search"


@pytest.mark.parametrize(
    ("error", "why"),
    [(OSError("no route\nsecond line"), "(no route)"), (TimeoutError(), "(TimeoutError)"), (KeyError("g"), "('g')")],
)
def test_a_failed_row_is_replaced_by_the_list_and_the_reason_is_shown(error: Exception, why: str) -> None:
    def ask(_words: str) -> list[FoundPlugin]:
        raise error

    told = search_plugins("iceberg", ask)
    assert [plugin.coordinate for plugin in told.plugins] == ["org.apache.iceberg:iceberg-kafka-connect"]
    assert told.origin == f"from the bundled list, because the search of Maven Central failed {why}"


def test_all_words_must_be_in_it_in_any_case_and_order() -> None:
    both = [plugin.coordinate for plugin in well_known("POSTGRESQL debezium")]
    assert both == ["io.debezium:debezium-connector-postgres"]
    assert well_known("postgresql iceberg") == []
    assert {plugin.coordinate.count(":") for plugin in well_known("")} == {1}, "without versions: they would be old"
