# ruff: noqa: E501 - one line a group of inputs
r"""Inputs for Kafka's ``JaasContext``: login modules as ``sasl.jaas.config`` has them."""

from __future__ import annotations

from typing import Any

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORDS = [  # as they stand behind password=
    '"simple"', "'single'", '"with space"', '"a;b"', '"a=b"', '"it\'s"', "'say \"x\"'", r'"q\"q"', r'"back\\slash"', r'"\n\t\r\b\f\a\v"', r'"\d\x\u0041\ "', r'"\0"', r'"\7"', r'"\101"', r'"\1012"', r'"\377"', r'"\477"', r'"\81"', r'"p\12x"',
    '"é漢"', '"#hash"', '"a//b"', '"a/*b*/c"', '"${env}"', '"never closed', '"new\nline"', r'"ends with a backslash\"', '""', "''",
    "word", "word1", "wo.rd", "w-_$d", "é", "1", "123", "12ab", "-1", "-", "-a", ".5", "a/b", "/etc/x", "a//b", "a#b", "#a", "a@b", "a+b", "a:b", "a,b", "a!", "a%20", "a*b", "a=b", "a b", "a'b'", 'a"b"', "{a}", "(a)", "~", "", "=",
]  # fmt: skip
TEXTS = [
    "", " ", ";", MODULE, f"{MODULE};", f"{MODULE} required", f"{MODULE} required;", f"{MODULE} REQUIRED ;", f"{MODULE} Required a=b ;", f"{MODULE} sufficient;", f"{MODULE} optional;", f"{MODULE} requisite;", f"{MODULE} needed;", f'{MODULE} "required" a="b";',
    f'"{MODULE}" required a="b";', f'{MODULE} required a="b"', f'{MODULE} required a="b" a="c";', f'{MODULE} required a="b"c="d";', f'{MODULE} required a = "b" ;', f'{MODULE} required\n  a="b"\n  c="d";\n', f'{MODULE} required "a"="b";', f"{MODULE} required 'a b'='c';",
    f'{MODULE} required a="b"; trailing', f'{MODULE} required a="b"; // comment', f'{MODULE} required a="b"; # no comment', f'{MODULE} required a="b";;', f'{MODULE} required a="b"; {MODULE} required;', f'/* c */ {MODULE} /* d */ required // e\n a="b";', f'{MODULE} required a="b" /* open',
    f'{MODULE} required a "b";', f"{MODULE} required a;", f"{MODULE} required =b;", f'{MODULE} required a="b",c="d";', f'{MODULE} required a="b" 1="c";', '1 required a="b";', '= required a="b";', 'x.Y$Z required a.b="c";', 'com.a_b-c required a-b="c";', '\ufeff' + f'{MODULE} required a="b";',
]  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """Return every input."""
    found = [f'{MODULE} required username="u" password={password};' for password in PASSWORDS]
    found += [f'{MODULE} required password={password} username="u";' for password in PASSWORDS]
    return [{"kind": "jaas", "text": text} for text in (*TEXTS, *found)]
