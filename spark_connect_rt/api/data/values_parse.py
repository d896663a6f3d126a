"""A value inferred from its text: null, booleans, numbers, dates, lists, maps (Java ``Values.parseString``).

Any other text is a string. The schema of a number is the smallest that holds it. A list or map whose elements have no
type in common has a schema without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.java_numbers import big_decimal, single_of_decimal, wrapped
from spark_connect_rt.api.data.schema import NULL, Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.simple_date_format import pattern_parts
from spark_connect_rt.api.data.simple_date_parse import parse_prefix
from spark_connect_rt.api.data.values_coerce import coerced
from spark_connect_rt.api.data.values_text import DATE_PATTERN, TIME_PATTERN, TIMESTAMP_PATTERN
from spark_connect_rt.api.data.values_tokens import Tokens
from spark_connect_rt.errors import DataError

_INTEGERS = ((8, schemas.INT8), (16, schemas.INT16), (32, schemas.INT32), (64, schemas.INT64))
_WIDTH_ORDER = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_MOST_WHOLE = Decimal("1e19")
_CENTURY = (1970, 1, 1)  # the patterns here have years of four digits: it decides nothing
_TEMPORAL = {  # length of the text -> its possible types
    13: (logical.time_schema(), pattern_parts(TIME_PATTERN)),
    24: (logical.timestamp_schema(), pattern_parts(TIMESTAMP_PATTERN)),
    10: (logical.date_schema(), pattern_parts(DATE_PATTERN)),
}
_LITERALS = {
    "null": NULL,
    "true": SchemaAndValue(schemas.BOOLEAN, True),
    "false": SchemaAndValue(schemas.BOOLEAN, False),
}


def parse_string(text: str | None) -> SchemaAndValue:
    """Return the value a text stands for, with its schema; the text itself as STRING when nothing else fits."""
    if text is None:
        return NULL
    return _parse(Tokens(text), embedded=False) if text else SchemaAndValue(schemas.STRING, "")


def _parse(tokens: Tokens, *, embedded: bool) -> SchemaAndValue:
    if not tokens.has_next():
        return NULL
    if embedded and tokens.consume('"'):
        return _quoted(tokens)
    for literal, value in _LITERALS.items():
        start = tokens.mark()
        if tokens.consume(literal) and (embedded or not tokens.has_next()):
            return value
        tokens.rewind(start)
    start = tokens.mark()
    try:
        if tokens.consume("["):
            return _list(tokens)
        if tokens.consume("{"):
            return _map(tokens)
    except DataError:
        tokens.rewind(start)
    token = tokens.next()
    if not token.strip():
        return SchemaAndValue(schemas.STRING, token)
    return _simple(tokens, token.strip(), embedded=embedded)


def _simple(tokens: Tokens, token: str, *, embedded: bool) -> SchemaAndValue:
    if token[0].isdigit() and (temporal := _temporal_of_tokens(tokens, token)):
        return temporal
    if token[0].isdigit() or token[0] in "+-":
        try:
            return _number(big_decimal(token))
        except ValueError:
            pass
    if embedded:
        raise DataError("Failed to parse embedded value")
    return SchemaAndValue(schemas.STRING, tokens.text)


def _quoted(tokens: Tokens) -> SchemaAndValue:
    content = ""
    while tokens.has_next():
        if tokens.consume('"'):
            break
        content += tokens.next()
    return _temporal(content) or SchemaAndValue(schemas.STRING, content)


def _number(number: Decimal) -> SchemaAndValue:
    exact = _whole(number)
    if exact is not None:
        return exact
    exponent = int(number.as_tuple().exponent)
    if exponent != 0:
        for schema, value in ((schemas.FLOAT32, single_of_decimal(number)), (schemas.FLOAT64, float(number))):
            if abs(value) != float("inf"):
                return SchemaAndValue(schema, value)
    return SchemaAndValue(logical.decimal_schema(-exponent), number)


def _whole(number: Decimal) -> SchemaAndValue | None:
    if number.copy_abs() > _MOST_WHOLE or number != number.to_integral_value():
        return None
    whole = int(number)
    found = next((schema for bits, schema in _INTEGERS if wrapped(whole, bits) == whole), None)
    return SchemaAndValue(found, whole) if found else None


def _temporal_of_tokens(tokens: Tokens, token: str) -> SchemaAndValue | None:
    """Look at four more tokens too: a time holds two colons."""
    start = tokens.mark()
    rest = tokens.next_together(4)
    if rest is not None and (found := _temporal(token + rest)):
        return found
    tokens.rewind(start)
    return _temporal(token)


def _temporal(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    schema, parts = _TEMPORAL.get(len(text), (None, ()))
    found = schema and parse_prefix(parts, text, _CENTURY)
    if not schema or not found or not found[1]:
        return None
    try:
        return SchemaAndValue(schema, logical.from_ms(schema.name or "", found[0]))
    except DataError:  # a year that Python has no date for
        return None


class _Common:
    """The schema that all elements seen so far fit."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._compatible = True

    def merge(self, latest: Schema | None) -> None:
        if latest is not None and self._compatible:
            self.schema = latest if self.schema is None else _merged(self.schema, latest)
            self._compatible = self.schema is not None


def _merged(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        if previous.optional is latest.optional:
            return previous if previous.optional else latest
        return previous if previous == latest else None
    if previous.type in _WIDTH_ORDER and latest.type in _WIDTH_ORDER:
        return max(previous, latest, key=lambda schema: _WIDTH_ORDER.index(schema.type))
    return None


def _list(tokens: Tokens) -> SchemaAndValue:
    result: list[Any] = []
    common = _Common()
    while tokens.has_next():
        if tokens.consume("]"):
            if common.schema is None:
                return SchemaAndValue(Schema(Type.ARRAY), result)
            aligned = [coerced(common.schema, None, value) for value in result]
            return SchemaAndValue(Schema(Type.ARRAY, value_schema=common.schema), aligned)
        if tokens.consume(","):
            raise DataError(f"Unable to parse an empty array element: {tokens.text}")
        element = _parse(tokens, embedded=True)
        common.merge(element.schema)
        result.append(element.value)
        position = tokens.mark()
        if tokens.consume("]"):
            tokens.rewind(position)
        elif not tokens.consume(","):
            raise DataError("Array elements missing ',' delimiter")
    raise DataError(f"Array is not complete: {tokens.text}")


def _map(tokens: Tokens) -> SchemaAndValue:
    result: dict[Any, Any] = {}
    keys, values = _Common(), _Common()
    while tokens.has_next():
        if tokens.consume("}"):
            return _finished_map(keys.schema, values.schema, result)
        if tokens.consume(","):
            raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
        key = _parse(tokens, embedded=True)
        if key.value is None:
            raise DataError(f"Map entry may not have a null key: {tokens.text}")
        if not tokens.consume(":"):
            raise DataError(f"Map entry is missing ':' at {tokens.position} in {tokens.text}")
        value = _parse(tokens, embedded=True)
        _put(result, key.value, value.value)
        tokens.consume(",")
        keys.merge(key.schema)
        values.merge(value.schema)
    raise DataError(f"Map is not complete: {tokens.text}")


def _put(result: dict[Any, Any], key: Any, value: Any) -> None:
    try:
        result[key] = value
    except TypeError as error:  # Java takes a list or a map as a key; Python has no such dict
        raise DataError(f"a {type(key).__name__} cannot be the key of a map here") from error


def _finished_map(keys: Schema | None, values: Schema | None, result: Mapping[Any, Any]) -> SchemaAndValue:
    if keys is None:
        return SchemaAndValue(Schema(Type.MAP), dict(result))
    schema = Schema(Type.MAP, key_schema=keys, value_schema=values)
    aligned = {
        coerced(keys, None, key): part if values is None else coerced(values, None, part)
        for key, part in result.items()
    }
    return SchemaAndValue(schema, aligned)
