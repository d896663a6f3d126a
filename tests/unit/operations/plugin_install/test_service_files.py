"""Plug-ins of jars are found by their class files; missing service files are written beside them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from spark_connect_rt.operations.plugin_install.service_files import (
    SHIM,
    complete_service_files,
    declared,
    find_plugins,
    missing_services,
    read_class,
    sync_manifests,
)
from tests.unit.operations.plugin_install.archives import ABSTRACT, INTERFACE, PUBLIC, SOURCE, class_file, jar_bytes

SOURCES = "org.apache.kafka.connect.source.SourceConnector"
TRANSFORMATIONS = "org.apache.kafka.connect.transforms.Transformation"
TRANSFORMATION = TRANSFORMATIONS.replace(".", "/")


def test_a_class_file_is_read() -> None:
    found = read_class(class_file("a/B$C", SOURCE, ["x/Y"]))
    assert (found.name, found.parents, found.can_be_made, found.release) == ("a.B$C", (SOURCES, "x.Y"), True, 17)
    assert not read_class(class_file("a/B", constructor=False)).can_be_made
    assert not read_class(class_file("a/B", flags=PUBLIC | ABSTRACT)).can_be_made


def test_children_of_the_jars_own_bases_are_found_in_any_order_and_jar(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(
        jar_bytes(
            {
                "a/Leaf.class": class_file("a/Leaf", "z/Middle"),
                "a/NotPublic.class": class_file("a/NotPublic", "z/Middle", flags=0),
                "a/Other.class": class_file("a/Other"),
                "META-INF/versions/21/a/Leaf.class": b"newer",
            }
        )
    )
    (tmp_path / "b.jar").write_bytes(
        jar_bytes(
            {
                "z/Middle.class": class_file("z/Middle", "z/Root", flags=PUBLIC | ABSTRACT),
                "z/Root.class": class_file("z/Root", SOURCE, flags=PUBLIC | ABSTRACT),
                "z/Api.class": class_file("z/Api", interfaces=[TRANSFORMATION], flags=PUBLIC | INTERFACE | ABSTRACT),
                "z/Smt$Value.class": class_file("z/Smt$Value", interfaces=["z/Api"]),
            }
        )
    )
    (tmp_path / "broken.jar").write_bytes(b"no zip")
    jars = sorted(tmp_path.glob("*.jar"))
    assert find_plugins(jars) == {SOURCES: {"a.Leaf"}, TRANSFORMATIONS: {"z.Smt$Value"}}


def test_only_what_is_missing_is_written(tmp_path: Path) -> None:
    services = f"META-INF/services/{SOURCES}"
    classes = {"a/One.class": class_file("a/One", SOURCE), "a/Two.class": class_file("a/Two", SOURCE)}
    (tmp_path / "a.jar").write_bytes(jar_bytes({**classes, services: b"# a comment\na.One # another\n"}))
    assert complete_service_files(tmp_path) == {SOURCES: {"a.One", "a.Two"}}
    assert declared([tmp_path / SHIM]) == {SOURCES: {"a.Two"}}
    (tmp_path / SHIM).unlink()
    (tmp_path / "a.jar").write_bytes(jar_bytes({**classes, services: b"a.One\na.Two\n"}))
    complete_service_files(tmp_path)
    assert not (tmp_path / SHIM).exists()


def test_manifests_are_synced_again_when_a_jar_comes_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(jar_bytes({"a/One.class": class_file("a/One", SOURCE)}))
    assert sync_manifests(tmp_path) == {SOURCES: {"a.One"}}
    assert sync_manifests(tmp_path) == {}
    (tmp_path / "b.jar").write_bytes(jar_bytes({"b/Two.class": class_file("b/Two", SOURCE)}))
    assert sync_manifests(tmp_path) == {SOURCES: {"b.Two"}}
    assert declared([tmp_path / SHIM]) == {SOURCES: {"a.One", "b.Two"}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jar", "b.jar", SHIM]


def test_a_jar_alone_gets_its_own_service_files_and_keeps_all_else(tmp_path: Path) -> None:
    services = f"META-INF/services/{SOURCES}"
    smt = class_file("a/Smt", interfaces=[TRANSFORMATION])
    files = {"a/One.class": class_file("a/One", SOURCE), "a/Two.class": class_file("a/Two", SOURCE), "a/Smt.class": smt}
    (tmp_path / "real.jar").write_bytes(jar_bytes({**files, services: b"a.One"}))
    link = tmp_path / "uber.jar"
    link.symlink_to(tmp_path / "real.jar")
    missing = {SOURCES: {"a.Two"}, TRANSFORMATIONS: {"a.Smt"}}
    assert missing_services(link) == missing
    assert sync_manifests(link) == missing
    assert link.is_symlink()
    assert missing_services(link) == {}
    with zipfile.ZipFile(link) as jar:
        assert jar.read(services).decode().split() == ["a.One", "a.Two"]
        assert jar.read("a/Smt.class") == smt
        assert len(jar.namelist()) == len(set(jar.namelist())) == 5
