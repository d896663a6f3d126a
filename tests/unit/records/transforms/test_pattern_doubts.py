"""Date patterns that Java accepts and users do not intend."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.data.simple_date_format import pattern_doubt


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSSSSS", "SSS"),
        ("YYYY-MM-dd", "yyyy"),
        ("yyyy-MM-DD", "dd"),
        ("yyyy-mm-dd", "MM"),
        ("yyyy-MM-dd HH:MM:ss", "mm"),
        ("yyyy-MM-dd hh:mm", "HH"),
    ],
)
def test_a_pattern_with_another_letter_than_is_meant_is_doubted(pattern: str, word: str) -> None:
    doubt = pattern_doubt(pattern)
    assert doubt is not None
    assert f"Write {word}" in doubt


USUAL = ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyyMMdd", "HH:mm", "h:mm a", "YYYY-'W'ww-u", "yyyy-DDD", "MMM d, yyyy", "'")


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_not_doubted(pattern: str) -> None:
    assert pattern_doubt(pattern) is None
