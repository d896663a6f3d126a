"""The wheel's build: compiles ``java/`` into ``spark_connect_rt/engine/java_host/java-host.jar``, for Java plug-ins.

It also puts the ``.pth`` file of ``spark_connect_rt/engine/startup/pyspark_folder.py`` where Python looks for them.

By ``javac --release 17``; without a JDK by Eclipse's compiler on the Java there is. Without a Java, or without the
network for Connect's own jars, the wheel is built all the same, without that jar, and the build says so:
CONNECTRT_BUILD_JAVA=require makes that an error, =skip leaves Java out.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_WHEEL = "spark_connect_rt/engine/java_host/java-host.jar"
PATHS = "spark_connect_rt/engine/startup/pyspark_folder.pth"
PATHS_IN_WHEEL = "spark_connect_rt_pyspark.pth"  # Python takes them by name: behind the one of an editable install


class JavaHostHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the jar to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the paths; compile, unless the install is editable: a checkout compiles at its first Java plug-in."""
        included = "force_include_editable" if version == "editable" else "force_include"
        build_data[included][str(Path(self.root) / PATHS)] = PATHS_IN_WHEEL
        mode = os.environ.get("CONNECTRT_BUILD_JAVA", "auto")
        if version == "editable" or mode == "skip":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="connectrt-build-"))
        try:
            how = compile_java(Path(self.root), self._folder / "java-host.jar")
        except Exception as error:
            if mode == "require":
                raise
            self.app.display_warning(f"this wheel runs no Java plug-ins: java/ was not compiled: {error}")
            return
        self.app.display_info(f"compiled java/ with {how}")
        build_data["force_include"][str(self._folder / "java-host.jar")] = IN_WHEEL

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the build."""
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)


def compile_java(root: Path, jar: Path) -> str:
    """Compile the sources of a checkout into ``jar``; return by what. Raises what is missing or wrong."""
    sys.path.insert(0, str(root))
    try:
        from spark_connect_rt.engine.java_host import compiler
    finally:
        sys.path.remove(str(root))
    sources = sorted((root / "java" / "src").rglob("*.java"))
    found = shutil.which("java")
    home = Path(os.environ["JAVA_HOME"]) if os.environ.get("JAVA_HOME") else None
    if home is None:
        if found is None:
            raise RuntimeError("there is no Java: neither JAVA_HOME nor java on the PATH")
        home = Path(found).resolve().parent.parent
    javac = compiler.javac_of(home)
    with tempfile.TemporaryDirectory() as classes:
        command = compiler.compiler_command(home, compiler.connect_jars(), Path(classes), javac)
        compiler.compile_jar(command, Path(classes), sources, jar)
    return javac or "Eclipse's compiler"
