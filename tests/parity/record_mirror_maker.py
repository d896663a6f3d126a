"""Puts MirrorMaker's files to Java: ``python -m tests.parity.record_mirror_maker`` rewrites golden/mirror-maker-*.

Needs a JDK in JAVA_HOME (the oracle is one Java source file, run as it is).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.parity.cases_of_mirror_maker import CASES, ENVIRONMENT
from tests.support.mirror_maker_process import COORDINATES

HERE = Path(__file__).parent


def main() -> None:
    """Record every case."""
    class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
    command = [str(find_java().executable), "-cp", class_path, str(HERE / "java" / "MirrorMakerOracle.java")]
    environment = {**os.environ, **ENVIRONMENT}
    asked = subprocess.run(
        command, input=json.dumps(CASES), capture_output=True, text=True, check=False, env=environment
    )
    if asked.returncode:
        raise SystemExit(asked.stderr)
    document = {"recorded_from": f"Apache Kafka MirrorMaker {KAFKA_VERSION}", "files": json.loads(asked.stdout)}
    target = HERE / "golden" / f"mirror-maker-{KAFKA_VERSION}.json"
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
