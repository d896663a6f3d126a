"""Properties files: escaped settings come back, any text parses or is refused with our error."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.config.java_properties import parse_properties
from spark_connect_rt.errors import BadConfigError

slow_machine = settings(deadline=None, max_examples=60)


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


@slow_machine
@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xD7FF), min_size=1), st.text(st.characters(max_codepoint=0xD7FF))
    )
)
def test_escaped_settings_come_back(settings: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in settings.items())
    assert parse_properties(text) == settings


@slow_machine
@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadConfigError):
        assert all(isinstance(value, str) for value in parse_properties(text).values())
