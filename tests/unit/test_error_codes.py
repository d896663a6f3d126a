"""Every error code in the source is explained, and every explained one exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from spark_connect_rt.cli.error_table import explanation
from spark_connect_rt.errors import ConnectError, NotFoundError, explain_hint, explained_at

ROOT = Path(__file__).parents[2]


def test_the_reference_explains_exactly_the_codes_that_are_raised() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "spark_connect_rt").rglob("*.py"))
    raised = set(re.findall(r"CRT-\d{4}", sources))
    explained = re.findall(r"^\| (CRT-\d{4}) \|", (ROOT / "docs/reference/errors.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(explained) == sorted(set(explained))
    assert set(explained) == raised


def test_messages_link_to_the_anchor_of_their_code() -> None:
    path, _, anchor = explained_at("CRT-1040").partition("#")
    assert f'<a id="{anchor}"></a>' in (ROOT / "docs" / path).read_text("utf-8")
    assert explained_at("") == explained_at(ConnectError.code) == ""


def test_every_code_has_an_anchor_that_a_message_can_link_to() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    rows = re.findall(r'^\| (CRT-\d{4}) \|(?: <a id="([\w-]+)"></a>)?', page, re.MULTILINE)
    assert [code for code, anchor in rows if anchor != code.lower()] == []


def test_every_code_is_explained_by_the_command_that_messages_name() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    codes = re.findall(r"^\| (CRT-\d{4}) \|", page, re.MULTILINE)
    assert len(codes) > 50
    for code in codes:
        meaning, action = explanation(code).splitlines()
        assert meaning.startswith(f"{code}: ")
        assert action.removeprefix("What to do: ")
        assert not re.search(r"<a |\]\(", meaning + action), "no mark-up of a page"
    assert explanation("crt-1040") == explanation("1040")
    with pytest.raises(NotFoundError, match="CRT-9999"):
        explanation("CRT-9999")


def test_messages_end_with_the_command_that_explains_their_code() -> None:
    assert explain_hint("CRT-1040") == "connectrt explain CRT-1040 says more"
    assert explain_hint("") == explain_hint(ConnectError.code) == ""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"]["docs/reference/errors.md"] == "spark_connect_rt/cli/errors.md"
