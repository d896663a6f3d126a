"""Reads from a Java class file what decides whether it is a plug-in: name, parents, flags, a constructor. Pure.

Source: the class file format of the Java Virtual Machine Specification, chapter 4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MAGIC = 0xCAFEBABE
_PUBLIC, _INTERFACE, _ABSTRACT = 0x0001, 0x0200, 0x0400
_UTF8, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


@dataclass(frozen=True, slots=True)
class ClassFile:
    """One class; names with dots, nested ones with ``$``."""

    name: str
    parents: tuple[str, ...]  # its super class, then its interfaces
    can_be_made: bool  # public, not abstract, with a public constructor without arguments
    release: int  # of Java: 17, 21 ...


def read_class(data: bytes) -> ClassFile:
    """Return what a class file says. Raises ValueError: it is none."""
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(f"not a valid class file: {error!r}") from error


def _read(data: bytes) -> ClassFile:
    magic, _, major, count = struct.unpack_from(">IHHH", data)
    if magic != _MAGIC:
        raise ValueError("not a valid class file")
    texts: dict[int, bytes] = {}
    classes: dict[int, int] = {}
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + length]
            at += 3 + length
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        number += 2 if tag in (_LONG, _DOUBLE) else 1

    def name_of(index: int) -> str:
        return texts[classes[index]].decode("utf-8", "replace").replace("/", ".")

    flags, this, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    indexes = struct.unpack_from(f">{interfaces}H", data, at + 8)
    at = _behind_fields(data, at + 8 + 2 * interfaces)
    parents = ([name_of(parent)] if parent else []) + [name_of(place) for place in indexes]
    concrete = bool(flags & _PUBLIC) and not flags & (_ABSTRACT | _INTERFACE)
    return ClassFile(name_of(this), tuple(parents), concrete and _has_constructor(data, at, texts), major - 44)


def _behind_fields(data: bytes, at: int) -> int:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        at = _behind_attributes(data, at + 6)
    return at


def _behind_attributes(data: bytes, at: int) -> int:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        (length,) = struct.unpack_from(">I", data, at + 2)
        at += 6 + length
    return at


def _has_constructor(data: bytes, at: int, texts: dict[int, bytes]) -> bool:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        flags, name, descriptor = struct.unpack_from(">HHH", data, at)
        if flags & _PUBLIC and texts.get(name) == b"<init>" and texts.get(descriptor) == b"()V":
            return True
        at = _behind_attributes(data, at + 6)
    return False
