"""What may be asked to be installed, and what the list of allowed sources lets pass."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadRequestError, ForbiddenError
from spark_connect_rt.operations.plugin_install.installer import artifact_of, left_out
from spark_connect_rt.operations.plugin_install.sources import (
    PluginSource,
    SourceKind,
    check_allowed,
    folder_name,
    parse_source,
)

WHEEL = "https://h.example/orders-1.2-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "io.debezium:debezium-jdbc:3.7.0",
            ("maven", "io.debezium:debezium-jdbc:3.7.0", "debezium-jdbc", "3.7.0"),
        ),
        ("org.apache.kafka:connect-file", ("maven", "org.apache.kafka:connect-file", "connect-file", "")),
        ("https://h.example/jdbc-10.8.zip?x=1", ("archive", "https://h.example/jdbc-10.8.zip?x=1", "jdbc", "10.8")),
        ("file:/drop/my%20plugin-1.tgz", ("archive", "file:/drop/my plugin-1.tgz", "my plugin", "1")),
        ("file:///drop/uber.jar", ("archive", "file:/drop/uber.jar", "uber", "")),
        ("plain.tar.gz", ("archive", "file:/here/plain.tar.gz", "plain", "")),
        (WHEEL, ("python", WHEEL, "orders", "1.2")),
        ("Orders_Source[x]>=1,<2", ("python", "Orders_Source[x]<2,>=1", "orders-source", "")),
        ("pypi:orders==1.0", ("python", "orders==1.0", "orders", "")),
    ],
)  # fmt: skip
def test_a_text_is_a_coordinate_an_archive_or_a_requirement(text: str, expected: tuple[str, str, str, str]) -> None:
    found = parse_source(text, [f"/here/{text}"])
    assert (found.kind.value, found.text, found.name, found.version) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ftp://h.example/a.zip", "not by ftp"),
        ("file://otherhost/a.zip", "on this machine"),
        ("https://me:secret@h.example/a.zip", "user or password"),
        ("https:///a.zip", "the URL has no host"),
        ("https://h.example/a.exe", "must be a .zip"),
        ("https://h.example/orders.whl", "not a valid wheel name"),
        ("orders @ https://h.example/x.whl", "is fetched|not a valid source|no name|whl"),
        ("a b c", "not a valid source"),
        ("--index-url=x", "not a valid source"),
    ],
)
def test_invalid_source_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadRequestError, match=why):
        parse_source(text)


MAVEN = PluginSource(SourceKind.MAVEN, "io.debezium:debezium-core:3.7.0", "debezium-core", "3.7.0")
WEB = PluginSource(SourceKind.ARCHIVE, "https://Plugins.example.com/a/x-1.zip", "x", "1")
FILE = PluginSource(SourceKind.ARCHIVE, "file:/drop/x-1.zip", "x", "1")
PYTHON = PluginSource(SourceKind.PYTHON, "orders==1", "orders")


@pytest.mark.parametrize(
    ("source", "pattern", "fits"),
    [
        (MAVEN, "io.debezium:*", True),
        (MAVEN, "io.debezium:*:3.*", True),
        (MAVEN, "io.debezium:debezium-core", False),
        (MAVEN, "org.other:*", False),
        (MAVEN, "io.debezium", False),
        (WEB, "plugins.example.com", True),
        (WEB, "*.example.com", True),
        (WEB, "example.com", False),
        (WEB, "https://plugins.example.com.evil.example/*", False),
        (FILE, "file:/drop/*", True),
        (FILE, "file:/other/*", False),
        (FILE, "drop", False),
        (PYTHON, "pypi:orders*", True),
        (PYTHON, "orders", False),
        (PYTHON, "*", True),
    ],
)
def test_the_list_of_allowed_sources(source: PluginSource, pattern: str, fits: bool) -> None:
    check_allowed(source, [])  # no list: anything
    if fits:
        check_allowed(source, ["org.none:*", pattern])
    else:
        with pytest.raises(ForbiddenError, match=r"add .* to connectrt\.plugins\.allowed") as refused:
            check_allowed(source, [pattern])
        assert refused.value.code == "CRT-1160"


@pytest.mark.parametrize("name", ["../up", ".hidden", "a/b", "", "a\0b", "x" * 200])
def test_a_name_that_leads_elsewhere_makes_no_folder(name: str) -> None:
    with pytest.raises(BadRequestError):
        folder_name(name, "")


def test_jars_that_connect_provides_are_left_out_unless_requested() -> None:
    jars = [
        "connect-api-4.1.1.jar",
        "connect-json-4.1.1.jar",
        "jackson-databind-2.19.0.jar",
        "jackson-dataformat-csv-2.19.0.jar",
        "kafka-clients-4.1.1.jar",
        "postgresql-42.7.7.jar",
        "slf4j-api-2.0.17.jar",
        "zstd-jni-1.5.6-10.jar",
    ]
    assert [artifact_of(jar) for jar in jars][-1] == "zstd-jni"
    kept = set(jars) - set(left_out(jars, "connect-json"))
    assert kept == {"connect-json-4.1.1.jar", "jackson-dataformat-csv-2.19.0.jar", "postgresql-42.7.7.jar"}
