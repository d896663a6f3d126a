import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.json_text import decode_json, encode_finite_json, encode_json
from spark_connect_rt.errors import DataError


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e10, "1.0E10"),
        (1.5e-5, "1.5E-5"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (1e7, "1.0E7"),
        (9_999_999.0, "9999999.0"),
        (12_345_678.9, "1.23456789E7"),
        (-1e22, "-1.0E22"),
        (100.0, "100.0"),
        (-0.0, "-0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_java_does(number: float, text: str) -> None:
    assert encode_json(number).decode() == text


def test_text_is_utf_8_with_jacksons_escapes() -> None:
    assert encode_json('a"\\/\n\t\x1f\x7fü😀').decode() == '"a\\"\\\\/\\n\\t\\u001F\x7fü😀"'


def test_containers_are_compact_and_keep_their_order() -> None:
    value = {"b": [1, None, True, {}], "a": [], "c": {"d": "e"}}
    assert encode_json(value) == b'{"b":[1,null,true,{}],"a":[],"c":{"d":"e"}}'


@pytest.mark.parametrize("bad", [b"", b"{", b"\xff", b'{"a":NaN}', b'"\n"', b"[" * 100_000])
def test_invalid_json_raises_data_error(bad: bytes) -> None:
    with pytest.raises(DataError):
        decode_json(bad)


def test_text_after_the_first_value_is_not_looked_at() -> None:
    assert decode_json(b' {"a":1} x') == {"a": 1}


@pytest.mark.parametrize("bad", [{1: 2}, object(), "\ud800", {"a": {1, 2}}])
def test_value_without_a_json_form_is_refused(bad: object) -> None:
    with pytest.raises(DataError):
        encode_json(bad)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(JSON_VALUES)
def test_the_fast_way_writes_the_same_bytes(value: object) -> None:
    assert encode_finite_json(value) == encode_json(value)


@pytest.mark.parametrize(
    "value", [1.0, -1e-5, [1.0], {"a": -1e22}, "\x1f", ["\x00"], 2**70, "a\\u00e9", [1, 2.5], {"1.5": "1.5"}, (1, "a")]
)
def test_the_fast_way_writes_odd_values_as_java_does(value: object) -> None:
    assert encode_finite_json(value) == encode_json(value)


@pytest.mark.parametrize("bad", [{1: 2}, object(), "\ud800", {"a": {1, 2}}])
def test_the_fast_way_refuses_the_same(bad: object) -> None:
    with pytest.raises(DataError):
        encode_finite_json(bad)
