"""Java's spelling of regular expressions, matched against whole names."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.java_regex import java_pattern


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("t", "t", "tt"),
        ("a|ab", "ab", "abc"),
        (r"orders-\d+", "orders-12", "orders-x"),
        (r"\Qa.b\E.*", "a.b-c", "axb"),
        (r"\Qa.b", "a.b", "a.bc"),
        ("(?<env>dev|prod)\\..*", "dev.x", "test.x"),
        (r"\p{Lower}+", "abc", "aBc"),
        (r"[\p{Digit}_]+", "1_2", "1-2"),
        (r"\P{Digit}+", "abc", "a1"),
        ("(?!x).*", "abc", "xbc"),
        ("(?i)abc", "ABC", "abd"),
        ("a++b", "aab", "aa"),
    ],
)
def test_a_pattern_matches_what_java_matches(text: str, yes: str, no: str) -> None:
    pattern = java_pattern(text)
    assert pattern.fullmatch(yes)
    assert not pattern.fullmatch(no)


@pytest.mark.parametrize("text", ["a(", "[", r"\p{IsGreek}", r"[\P{Digit}]"])
def test_inexpressible_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|is not supported"):
        java_pattern(text)


@pytest.mark.parametrize("text", ["[a-z&&[^b]]", "[a[bc]]", r"x[\]a[b]]"])
def test_classes_inside_of_classes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nested classes"):
        java_pattern(text)


@pytest.mark.parametrize("text", [r"[a\[b]+", r"\[[ab]+", "[]a]+", "[a&b]", "(a)[b](c)"])
def test_brackets_in_a_character_class_pass(text: str) -> None:
    java_pattern(text)
