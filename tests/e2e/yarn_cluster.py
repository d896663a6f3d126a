"""A YARN on loopback: ResourceManager and NodeManager in one JVM, containers below it.

Jars come from Maven Central by the package's own downloader, Hadoop's client classes from Spark's jars. The JVM ignores
SIGTERM and outlives an exception of its ``main``, so it is killed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pyspark

from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import until
from tests.e2e.submitted import descendants, kill_all, plain_environment

SPARK_HOME = Path(pyspark.__file__).parent
SPARK_JARS = SPARK_HOME / "jars"
SOURCE = Path(__file__).parent / "java" / "LoopbackYarn.java"
COMPILER = "org.codehaus.janino.SimpleCompiler"  # among Spark's jars: compiles and runs, so no JDK is needed
MEMORY_MB = 6144  # as YARN counts it: two application masters and two executors of 512 MB with their overheads
START_S = 180.0
FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class YarnCluster:
    """``yarn.start()``; then ``spark-submit`` with ``yarn.environment()`` and ``yarn.arguments(...)``."""

    def __init__(self, folder: Path, java: Java) -> None:
        self.folder = folder
        self.conf = folder / "conf"
        self._java = java
        self._log = folder / "yarn.log"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start the JVM; ``await_ready`` says when it may be used."""
        self.conf.mkdir()
        path = os.pathsep.join([*map(str, _jars()), str(SPARK_JARS / "*")])
        command = [str(self._java.executable), "-Xmx512m", *FAST, "-cp", path, COMPILER, str(SOURCE), SOURCE.stem]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, str(self.conf), str(MEMORY_MB)],
                cwd=self.folder,
                env=plain_environment() | {"JAVA_HOME": str(self._java.home)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait until applications may be submitted."""
        until((self.conf / "yarn-site.xml").exists, START_S, "YARN is ready", self.said, every_s=0.2)

    def environment(self) -> dict[str, str]:
        """Return what ``spark-submit`` finds the cluster by."""
        return {"HADOOP_CONF_DIR": str(self.conf), "YARN_CONF_DIR": str(self.conf)}

    def arguments(self, deploy_mode: str) -> list[str]:
        """Return the arguments of ``spark-submit`` for an application of one executor of one core."""
        conf = {
            "spark.yarn.stagingDir": f"file://{self.folder / 'staging'}",
            "spark.yarn.jars": f"local:{SPARK_JARS}/*",  # nothing is uploaded
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.instances": "1",
            "spark.executor.extraJavaOptions": " ".join(FAST),
            "spark.yarn.am.extraJavaOptions": " ".join(FAST),
            "spark.yarn.am.waitTime": "300s",
        }
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        return ["--master", "yarn", "--deploy-mode", deploy_mode, *words]

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of all executors; the shells that start them are not among them."""
        found = descendants(psutil.Process(self._process.pid)) if self._process is not None else []
        return [
            process for process, words in found if "CoarseGrainedExecutorBackend" in words and process.name() == "java"
        ]

    def said(self) -> str:
        """Return the ends of the cluster's log and of its containers', for a message."""
        logs = [self._log, *sorted(self.folder.glob("target/**/*logDir*/*/*/std*"))]
        return "\n".join(f"{log.parent.name}/{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def kill(self) -> None:
        """SIGKILL the JVM and every container."""
        if self._process is not None:
            containers = [process for process, _ in descendants(psutil.Process(self._process.pid))]
            self._process.kill()
            kill_all(containers)
            self._process.wait()
            self._process = None


def _jars() -> list[Path]:
    """Return the cluster's own jars, for the Hadoop that this Spark brings; the classes of clients are Spark's."""
    client = next(SPARK_JARS.glob("hadoop-client-api-*.jar"))
    hadoop = client.stem.removeprefix("hadoop-client-api-")
    jars = resolve_jars(
        (
            f"org.apache.hadoop:hadoop-client-minicluster:{hadoop}",
            "org.junit.jupiter:junit-jupiter-api:5.13.4",  # the minicluster's classes name its assertions
            "org.bouncycastle:bcpkix-jdk18on:1.82",
        )
    )
    return [jar for jar in jars if not jar.name.startswith(("hadoop-client-api", "hadoop-client-runtime"))]
