"""Archives of others: what leads out of the folder, is no file, or is too large, is refused; the rest is unpacked."""

from __future__ import annotations

import contextlib
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.plugin_install.downloads import safe_target, unpack
from tests.unit.operations.plugin_install.archives import jar_bytes, plugin_jar, plugin_zip, tgz

LIMIT_BYTES = 10_000


def test_a_vendors_single_folder_is_left_out(tmp_path: Path) -> None:
    unpack(plugin_zip(tmp_path / "one-1.0.zip"), tmp_path / "out", LIMIT_BYTES)
    found = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*"))
    assert found == ["doc/README.md", "lib/one.jar"]


def test_a_tgz_and_a_jar(tmp_path: Path) -> None:
    archive = tgz(tmp_path / "a.tar.gz", [(tarfile.TarInfo("./x/a.jar"), b"1"), (tarfile.TarInfo("./x/b/c"), b"2")])
    unpack(archive, tmp_path / "out", LIMIT_BYTES)
    assert (tmp_path / "out" / "b" / "c").read_bytes() == b"2"
    (tmp_path / "uber.jar").write_bytes(plugin_jar())
    unpack(tmp_path / "uber.jar", tmp_path / "out2", LIMIT_BYTES)
    assert (tmp_path / "out2" / "uber.jar").is_file()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "C:/x", "a\\..\\..\\x"])
def test_a_path_that_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.zip").write_bytes(jar_bytes({"ok.txt": b"", name: b"bad"}))
    before = sorted(tmp_path.parent.rglob("x"))
    with pytest.raises(BadRequestError, match="outside of its folder") as refused:
        unpack(tmp_path / "a.zip", tmp_path / "out", LIMIT_BYTES)
    assert refused.value.code == "CRT-1163"
    assert sorted(tmp_path.parent.rglob("x")) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_link_or_device(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(BadRequestError, match="neither a file nor a folder"):
        unpack(tgz(tmp_path / "a.tgz", [(info, b"")]), tmp_path / "out", LIMIT_BYTES)


def test_a_symbolic_link_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(BadRequestError, match="neither a file nor a folder"):
        unpack(tmp_path / "a.zip", tmp_path / "out", LIMIT_BYTES)


def test_more_bytes_than_allowed_are_not_written(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"0" * 1_000_000)
    with pytest.raises(BadRequestError, match=r"connectrt\.plugins\.size\.max\.bytes"):
        unpack(tmp_path / "bomb.zip", tmp_path / "out", LIMIT_BYTES)
    assert sum(file.stat().st_size for file in (tmp_path / "out").rglob("*")) <= LIMIT_BYTES


@pytest.mark.parametrize("name", ["a.zip", "a.tgz", "a.jar"])
def test_invalid_archive_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>Not found</html>")
    with pytest.raises(BadRequestError, match=r"cannot be unpacked|is not a valid jar"):
        unpack(tmp_path / name, tmp_path / "out", LIMIT_BYTES)


@pytest.mark.parametrize("entry", [".", "", "/", "./.", "a:b", "\0"])
def test_an_entry_that_names_no_file(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ValueError, match="outside of its folder"):
        safe_target(tmp_path, entry)


@pytest.mark.parametrize("name", ["a.zip", "a.tgz"])
def test_a_damaged_archive_is_refused_or_unpacked_and_nothing_else(tmp_path: Path, name: str) -> None:
    if name == "a.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(5):
                archive.writestr(f"lib/{number}.txt", b"text " * 100)
    else:
        tgz(tmp_path / name, [(tarfile.TarInfo(f"lib/{number}.txt"), b"text " * 100) for number in range(5)])
    whole, chance = (tmp_path / name).read_bytes(), random.Random(7)
    for attempt in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (tmp_path / name).write_bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        with contextlib.suppress(BadRequestError):
            unpack(tmp_path / name, tmp_path / f"out{attempt}", LIMIT_BYTES)
