"""Numbers as Java's boxes treat them: widths that wrap, casts that saturate, texts that parse or do not.

Python has one int and one float. For values that Java holds as a Byte or a Float, these functions return Java's
results.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

from spark_connect_rt.base.json_text import java_double

INT_BITS = 32
LONG_BITS = 64
_MOST_EXPONENT = 900_000
_BIG_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?")
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)")
_HEX_FLOAT = re.compile(r"([+-]?0[xX][\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+)[fFdD]?")
_EDGE_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes


def wrapped(number: int, bits: int) -> int:
    """Return the low ``bits`` of an integer as a signed number: Java's narrowing cast."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def saturated(number: float, bits: int) -> int:
    """Return a float cut to an integer of ``bits``: NaN is 0, a number that is too large is the largest."""
    if math.isnan(number):
        return 0
    limit = 1 << bits - 1
    return limit - 1 if number >= limit else -limit if number < -limit else int(number)


def to_single(number: float) -> float:
    """Return the nearest float of 4 bytes; too large is infinite."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def single_of_decimal(number: Decimal) -> float:
    """Return the nearest float of 4 bytes, rounded once and not by way of a double."""
    rough = to_single(float(number))
    if not math.isfinite(rough):
        return rough
    around = [rough, _next_single(rough, 1), _next_single(rough, -1)]
    finite = [candidate for candidate in around if math.isfinite(candidate)]
    return min(finite, key=lambda candidate: (abs(Decimal(candidate) - number), struct.pack(">f", candidate)[3] & 1))


def _next_single(number: float, step: int) -> float:
    (bits,) = struct.unpack(">i", struct.pack(">f", number))
    if number == 0:
        return number
    return float(struct.unpack(">f", struct.pack(">i", bits + step))[0])


def java_single(number: float) -> str:
    """Return ``Float.toString`` of a float of 4 bytes: the fewest digits that read back as it."""
    if not math.isfinite(number) or number == 0:
        return java_double(number)
    shortest = (float(f"{number:.{digits}g}") for digits in range(2, 10))
    return java_double(next((candidate for candidate in shortest if to_single(candidate) == number), number))


def narrowed(number: Any, bits: int) -> int:
    """Return ``Number.byteValue`` and its sisters for an int, a float or a Decimal."""
    if isinstance(number, float):  # small widths go by way of int, in Java
        return wrapped(saturated(number, max(bits, INT_BITS)), bits)
    return wrapped(int(number), bits)


def big_decimal(text: str) -> Decimal:
    """Return ``new BigDecimal(text)``. Raises ValueError where Java has a NumberFormatException.

    Exponents past a million are refused here, not in Java: an integer of that many digits is an attack, not a value.
    """
    if not _BIG_DECIMAL.fullmatch(text):
        raise ValueError(f"no number: {text}")
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) >= _MOST_EXPONENT:
        raise ValueError(f"the exponent of {text} is too large")
    return number if number else number.copy_abs()  # Java has no negative zero here


def parse_integer(text: str, bits: int) -> int:
    """Return ``Byte.parseByte`` and its sisters. Raises ValueError: no integer, or too large."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"no integer: {text}")
    number = int(text)
    if wrapped(number, bits) != number:
        raise ValueError(f"{text} does not fit {bits} bits")
    return number


def parse_float(text: str) -> float:
    """Return ``Double.parseDouble``: blanks around, a suffix, and hexadecimal are accepted. Raises ValueError."""
    bare = text.strip(_EDGE_BLANKS)
    if found := _HEX_FLOAT.fullmatch(bare):
        return float.fromhex(found.group(1))
    if not _FLOAT.fullmatch(bare):
        raise ValueError(f"no number: {text}")
    return float(bare if bare[-1] in "yN" else bare.rstrip("fFdD"))


def parse_single(text: str) -> float:
    """Return the number that Java's ``Float.parseFloat`` reads from a text. Raises ValueError: it is not a number."""
    number = parse_float(text)
    bare = text.strip(_EDGE_BLANKS).rstrip("fFdD")
    return single_of_decimal(Decimal(bare)) if _BIG_DECIMAL.fullmatch(bare) else to_single(number)
