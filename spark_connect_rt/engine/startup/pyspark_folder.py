"""Takes Spark's zips off the path of a Python process that Spark starts, where the same files are in a folder.

Spark puts its ``pyspark.zip`` first, and a zip holds no bytecode: each process compiled all it imports, 0.75 CPU s. Of
a pyspark that pip installed next to this package, the zip's files are in its folder, too. Called by the ``.pth`` file
that is installed with this package, at the start of each of these processes: imports nothing but what Python has
imported by then.
"""

from __future__ import annotations

import os

_IN_HOME = os.path.join("python", "lib", "pyspark.zip")


def prefer_folders(paths: list[str]) -> None:
    """Take zips from ``paths`` (``sys.path``); all others keep their places.

    pyspark's goes where it lies in the very folder that would be imported without it: one installation brought both.
    py4j's goes with it where the version in its name is the one installed in that place.
    """
    for zipped in [path for path in paths if path.endswith(os.sep + _IN_HOME)]:
        home = os.path.realpath(zipped.removesuffix(_IN_HOME))
        packages = os.path.dirname(home)
        is_on_path = packages in map(os.path.realpath, paths)
        if os.path.basename(home) != "pyspark" or not is_on_path or not _is_package(home):
            continue
        paths.remove(zipped)
        for path in paths[:]:
            if os.path.dirname(path) == os.path.dirname(zipped) and _is_installed(os.path.basename(path), packages):
                paths.remove(path)


def _is_installed(name: str, packages: str) -> bool:
    """Return whether a zip ``py4j-VERSION-src.zip`` holds what is in a folder of packages."""
    version = name.removeprefix("py4j-").removesuffix("-src.zip")
    known = os.path.isdir(os.path.join(packages, f"py4j-{version}.dist-info"))
    return name == f"py4j-{version}-src.zip" and known and _is_package(os.path.join(packages, "py4j"))


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))
