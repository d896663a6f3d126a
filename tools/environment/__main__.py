"""``python -m tools.environment``: makes or completes an environment from a lock file; spark-submit.sh calls it.

    python -m tools.environment --venv .venv --lock requirements.lock --stamp TEXT [--complete]
        [--folder FOLDER -- FILE ...]

``-- FILE ...``: the arguments of the job that will run, relative to ``--folder``. The ports of its listeners must be
free. Kafka's jars are downloaded meanwhile when it brings its own Kafka. ``--complete``: all modules are compiled
before it ends, for an environment in which many processes will start.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.environment.causes import AGAIN, Failure, failure_of, not_writable, too_little_space
from tools.environment.installers import BIG, PIP, UV, pip_install, uv_install, uv_variables, without_big
from tools.environment.listeners import job_file, listeners_of, taken_port
from tools.environment.programs import FailedError, Progress, run

ROOT = Path(__file__).parents[2]
NEEDED_BYTES = 3_500_000_000
PATIENT = 10  # niceness of what runs next to the installation


class Environment:
    """One environment on its way. ``make`` brings it there from whatever an earlier try has left."""

    def __init__(self, venv: Path, lock: Path, progress: Progress) -> None:
        """Take the environment's folder and the lock file."""
        self.venv, self._lock, self._progress = venv, lock, progress
        self.python = venv / "bin" / "python"
        self._log = venv / "install.log"
        self._beside: list[subprocess.Popen[bytes]] = []
        self._downloads: list[subprocess.Popen[bytes]] = []

    def make(self, *, jars: bool, complete: bool) -> None:
        """Install everything. Raises FailedError, OSError."""
        try:
            uv = self._uv()
            try:
                self._install_with_uv(uv, jars)
            except FailedError as error:
                if failure_of(error.text).final:
                    raise
                why = f"uv failed (see {self._log.name} in {self.venv.name}): installing with pip, some minutes"
                self._progress.phase("pip", why)
                self._install_with_pip()
            if uv and uv[0] == str(self.python) and not complete:
                self._forget_build(uv)
            if complete:
                self._progress.phase("modules", "compiling Python modules")
                self._end(self._beside)
                self._beside_this("-m", "compileall", "-q", "-j", "0", *self._modules(), patient=False).wait()
            self._downloads.clear()  # what is still downloaded is waited for where it is needed
        finally:
            self._end(self._beside + self._downloads)

    def _uv(self) -> list[str]:
        """Return the command of a uv: the user's, or one that pip brings into the new environment."""
        version = ".".join(map(str, sys.version_info[:3]))
        found = shutil.which("uv")
        self._progress.phase("environment", f"new environment in {self.venv.name}, Python {version}")
        if found:
            try:
                self._run([found, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(self.venv)])
                return [found]
            except FailedError as error:
                if failure_of(error.text).final:
                    raise
        return [str(self.python), "-m", "uv"] if self._has("uv") or self._bring_uv() else []

    def _bring_uv(self) -> bool:
        """Have pip bring a uv: the pip of this Python, which is quicker, else one of the new environment."""
        for bring in (self._uv_by_this_pip, self._uv_by_own_pip):
            try:
                bring()
                return True
            except FailedError as error:
                if failure_of(error.text).final:
                    raise
        return False  # no uv for this machine

    def _uv_by_this_pip(self) -> None:
        if not self.python.exists():
            self._run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)])
        self._run(pip_install([sys.executable, "-m", "pip", "--python", str(self.python)], UV))

    def _uv_by_own_pip(self) -> None:
        self._run(pip_install(self._own_pip(), UV))

    def _own_pip(self) -> list[str]:
        """Return the command of a pip in the environment, which is put there if it is missing."""
        if not self._has("pip"):
            self._run([sys.executable, "-m", "venv", str(self.venv)])
        return [str(self.python), "-m", "pip"]

    def _install_with_uv(self, uv: Sequence[str], jars: bool) -> None:
        if not uv:
            raise FailedError("there is no uv for this machine")
        first = self.venv / "without-spark.lock"
        first.write_text(without_big(self._lock.read_text(encoding="utf-8")), encoding="utf-8")
        variables = self._uv_variables()
        self._progress.phase("packages", "Python packages, some 300 MB")
        self._run(uv_install(uv, self.python, PIP, "-r", str(first)), variables)
        if jars:  # Kafka's, while the big one is built: one of two cores is idle then
            self._downloads.append(self._beside_this("-m", "spark_connect_rt.base.cache"))
        self._beside.append(self._beside_this("-m", "compileall", "-q", *self._modules()))
        self._progress.phase("Spark", "Apache Spark, some 450 MB")
        self._run(uv_install(uv, self.python, "-r", str(self._lock)), variables)
        self._progress.phase("spark-connect-rt", "spark-connect-rt itself")
        self._run(
            [*uv, "pip", "install", "--python", str(self.python), "--no-deps", "--editable", str(ROOT)], variables
        )

    def _install_with_pip(self) -> None:
        pip = self._own_pip()
        self._run(pip_install(pip, "-r", str(self._lock)))
        self._run(pip_install(pip, "--editable", str(ROOT)))

    def _forget_build(self, uv: Sequence[str]) -> None:
        """Delete what building Spark left in uv's cache, 2 GB: a user who had no uv has no other use for it."""
        with contextlib.suppress(FailedError):
            self._run([*uv, "--quiet", "cache", "clean", BIG])

    def _run(self, command: Sequence[str], variables: dict[str, str] | None = None) -> None:
        run(command, self._log, self._progress, variables)

    def _has(self, module: str) -> bool:
        with contextlib.suppress(OSError):
            command = [str(self.python), "-c", f"import {module}"]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        return False

    def _uv_variables(self) -> dict[str, str]:
        command = [str(self.python) if self._has("pip") else sys.executable, "-m", "pip", "config", "list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return uv_variables(listed, os.environ)

    def _modules(self) -> list[str]:
        return [str(self.venv / "lib"), *(str(ROOT / name) for name in ("spark_connect_rt", "pyspark_connectrt"))]

    def _beside_this(self, *arguments: str, patient: bool = True) -> subprocess.Popen[bytes]:
        """Start a Python program of the environment whose failure is met again, and said, where it matters."""
        nice = [found, "-n", str(PATIENT)] if patient and (found := shutil.which("nice")) else []
        return subprocess.Popen(
            [*nice, str(self.python), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )

    @staticmethod
    def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """End programs: each of them goes on from there when it is needed."""
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def brings_kafka(job: Path | None) -> bool:
    """Return whether a properties file is of a job that starts an embedded Kafka, as far as its own lines say."""
    try:
        lines = job.read_text(encoding="utf-8").splitlines() if job else []
    except (OSError, ValueError):
        return False  # the job itself meets the same, and says so
    return "bootstrap.servers=embedded" in (line.replace(" ", "") for line in lines)


@contextlib.contextmanager
def alone(venv: Path, progress: Progress) -> Iterator[None]:
    """Hold the environment's lock: two commands that begin at once make it once. Raises OSError."""
    venv.mkdir(parents=True, exist_ok=True)
    with (venv / ".connectrt-lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"another command is making {venv.name}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make(options: argparse.Namespace, progress: Progress) -> Failure | None:
    """Make the environment; return why it was not."""
    venv: Path = options.venv
    stamp_file = venv / ".connectrt-stamp"
    try:
        if failure := taken_port(listeners_of(options.job, options.folder)):
            return failure
        if not venv.exists():
            folder = next(parent for parent in venv.parents if parent.exists())
            if not os.access(folder, os.W_OK):
                return not_writable(str(folder))
            if failure := too_little_space(shutil.disk_usage(folder).free, NEEDED_BYTES, str(folder)):
                return failure
        with alone(venv, progress):
            if stamp_file.exists() and stamp_file.read_text(encoding="utf-8").strip() == options.stamp:
                return None  # made by the command that was waited for
            environment = Environment(venv, options.lock, progress)
            environment.make(jars=brings_kafka(job_file(options.job, options.folder)), complete=options.complete)
            shutil.rmtree(venv / "share" / "connectrt", ignore_errors=True)  # archives of other classes
            (venv / "class-archive.log").unlink(missing_ok=True)
            stamp_file.write_text(options.stamp + "\n", encoding="utf-8")
    except FailedError as error:
        return failure_of(error.text)
    except OSError as error:
        return failure_of(f"{error.strerror} {error.filename or ''}")
    progress.say(f"environment ready ({progress.summary()})")
    return None


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="tools.environment", description=__doc__)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--stamp", required=True, help="written when the environment is complete")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the job is started")
    parser.add_argument("job", nargs="*", help="the job's arguments, behind --")
    options = parser.parse_args()
    progress = Progress(float(os.environ.get("CONNECTRT_BEGAN") or time.time()))
    try:
        failure = make(options, progress)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nspark-submit.sh: stopped. {AGAIN}\n")
        return 130
    if failure is None:
        return 0
    sys.stderr.write(f"spark-submit.sh: {failure.sentence}\n")
    return failure.exit_code


if __name__ == "__main__":
    sys.exit(main())
