"""Connector files of a standalone worker, in all shapes that Java reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.standalone import read_connector_file
from spark_connect_rt.errors import StartupError
from spark_connect_rt.topics.config_records import TargetState

CONFIG = {"connector.class": "X", "tasks.max": "2", "name": "a"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("name=a\nconnector.class : X\ntasks.max=\\\n  2\n", None),
        ('{"name": "a", "connector.class": "X", "tasks.max": 2}', None),
        ('{"name": "a", "config": {"connector.class": "X", "tasks.max": "2"}, "colour": "red"}', None),
        (
            '{"name": "a", "initial_state": "paused", "config": {"connector.class": "X", "tasks.max": 2, "name": "a"}}',
            TargetState.PAUSED,
        ),
    ],
)
def test_every_shape_says_the_same(tmp_path: Path, text: str, state: TargetState | None) -> None:
    path = tmp_path / "a.file"
    path.write_text(text)
    request = read_connector_file(path).request
    assert (request.name, dict(request.config), request.initial_state) == ("a", CONFIG, state)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("connector.class=X\n", "is missing the mandatory 'name' configuration"),
        ('{"connector.class": "X"}', "is missing the mandatory 'name' configuration"),
        ('{"config": {"connector.class": "X"}}', "is missing the mandatory 'name' configuration"),
        ('{"name": "a", "config": {"name": "b"}}', "doesn't match connector name"),
        ('{"name": "a", "x": null}', "x: Null value can not be supplied"),
        ('{"name": "a", "config": {}, "initial_state": "ASLEEP"}', "initial_state: 'ASLEEP' is not valid"),
    ],
)
def test_a_bad_file_is_named_with_its_reason(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StartupError, match=why) as refused:
        read_connector_file(path)
    assert refused.value.exit_code == 20
    assert str(path) in str(refused.value)
