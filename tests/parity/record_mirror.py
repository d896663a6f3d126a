"""Puts the cases to MirrorMaker's own classes: ``python -m tests.parity.record_mirror`` rewrites golden/mirror-*.json.

Needs a JDK in JAVA_HOME (the oracle is one Java source file, run as it is).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.parity.cases_of_mirror import cases
from tests.support.mirror_maker_process import COORDINATES

HERE = Path(__file__).parent


def main() -> None:
    """Record every case."""
    class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
    command = [str(find_java().executable), "-cp", class_path, str(HERE / "java" / "MirrorOracle.java")]
    given = cases()
    asked = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    if asked.returncode:
        raise SystemExit(asked.stderr)
    lines = ",\n".join(
        json.dumps({"case": case, "java": java}, separators=(",", ":"))
        for case, java in zip(given, json.loads(asked.stdout), strict=True)
    )
    target = HERE / "golden" / f"mirror-{KAFKA_VERSION}.json"
    target.write_text(
        f'{{"recorded_from":"Apache Kafka MirrorMaker {KAFKA_VERSION}","cases":[\n{lines}\n]}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
