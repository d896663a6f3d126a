"""A real S3 server: S3Proxy, one jar of Maven Central, on the loopback, with its buckets in a folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import jgo

from spark_connect_rt.app.quickstart.embedded_kafka import _die_with_parent
from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.base.downloads import shown_nowhere
from spark_connect_rt.base.locked_jars import TIMEOUT_S, LockedJar, fetch_jars
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import StartupError

JAR = LockedJar(
    "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d",
    54_955_934,
    "org/gaul/s3proxy/4.1.0/s3proxy-4.1.0-jar-with-dependencies.jar",
)
KEY, SECRET = "test-key", "test-secret"
START_LIMIT_S = 60.0
EXIT_NOT_UP = 14


class S3Server:
    """One server with one access key. A stopped one can be started again, on the same port with the same objects."""

    def __init__(self, folder: Path, java: Java) -> None:
        """Take an empty folder for the objects and the log."""
        self._folder, self._java = folder, java
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.buckets = folder / "buckets"
        self.buckets.mkdir(parents=True)

    @property
    def config(self) -> dict[str, str]:
        """The settings of connectors (`file_stores.STORE_ACCESS`)."""
        return {
            "store.url": self.url,
            "s3.region": "us-east-1",
            "aws.access.key.id": KEY,
            "aws.secret.access.key": SECRET,
        }

    def bucket(self, name: str) -> str:
        """Make a bucket and return its URI."""
        (self.buckets / name).mkdir()
        return f"s3://{name}"

    def start(self) -> None:
        """Start it and wait until it answers. Raises StartupError."""
        properties = self._folder / "s3proxy.properties"
        settings = {
            "s3proxy.endpoint": self.url,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
            "jclouds.filesystem.basedir": str(self.buckets),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (self._folder / "log").open("ab") as log:
            options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
            self._process = subprocess.Popen(
                [self._java.executable, *options, "-jar", _jar(), "--properties", properties],
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        deadline_s = time.monotonic() + START_LIMIT_S
        while not self._answers():
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                self.stop()
                text = (self._folder / "log").read_text(errors="replace")[-2000:]
                raise StartupError(f"S3Proxy did not come up: {text}", exit_code=EXIT_NOT_UP)
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url, timeout=2).status_code < 500
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """Kill it. Its objects stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop it and delete its objects."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _jar() -> Path:
    """Return the jar. The first call downloads 55 MB."""
    folder = cache_directory() / "jars" / "s3proxy"
    with (
        exclusive(folder.with_suffix(".lock")),
        httpx.Client(base_url=jgo.MAVEN_CENTRAL_URL, timeout=TIMEOUT_S) as client,
    ):
        return fetch_jars((JAR,), folder, client, shown_nowhere)[0]
