"""Makes plug-ins as users install them: a folder, a wheel, a virtual environment."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

TRANSFORMATION = """
from dep import VERSION
from spark_connect_rt.api.transformation import Transformation


class Stamp(Transformation):
    def apply(self, record):
        return VERSION
"""
STAMP = "[spark_connect_rt.transformations]\nStamp = {module}:Stamp\n"


def dist_files(name: str, version: str, files: Mapping[str, str], entry_points: str) -> dict[str, str]:
    info = f"{name}-{version}.dist-info"
    return {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/entry_points.txt": entry_points,
    }


def make_folder(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str], entry_points: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in dist_files(name, version, files, entry_points).items():
            archive.writestr(path, text)
    return wheel


def make_venv(folder: Path, files: Mapping[str, str], python: str | None = None) -> Path:
    version = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
    make_folder(folder, {"pyvenv.cfg": f"version = {version}\n"})
    make_folder(folder / "lib" / f"python{version}" / "site-packages", files)
    return folder


def stamp_plugin(name: str, version: str) -> dict[str, str]:
    """Return the files of a distribution with one transformation and its own copy of ``dep``."""
    files = {f"{name}/__init__.py": TRANSFORMATION, "dep/__init__.py": f"VERSION = '{name} has {version}'\n"}
    return dist_files(name, version, files, STAMP.format(module=name))
