"""What Kafka's tests said, as a table. Pure but for reading the reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

CLASSES = (
    "OffsetsApiIntegrationTest",
    "ConnectorClientPolicyIntegrationTest",
    "ConnectorTopicsIntegrationTest",
    "ConnectWorkerIntegrationTest",
    "ConnectorValidationIntegrationTest",
    "SourceConnectorsIntegrationTest",
    "InternalTopicsIntegrationTest",
    "ConnectorRestartApiIntegrationTest",
    "ExactlyOnceSourceIntegrationTest",
    "RebalanceSourceConnectorsIntegrationTest",
    "SinkConnectorsIntegrationTest",
    "TransformationIntegrationTest",
    "BlockingConnectorTest",
    "ErrorHandlingIntegrationTest",
    "ExampleConnectIntegrationTest",
    "SessionedProtocolIntegrationTest",
)
"""Every class of Kafka 4.1 that speaks to a distributed worker by REST alone."""

LEFT_OUT = {
    "RestForwardingIntegrationTest": "It mocks the herder of a Java worker.",
    "StandaloneWorkerIntegrationTest": "It starts a standalone Java worker within the JVM of the tests.",
    "RestExtensionIntegrationTest": "It loads a REST extension in Java, which needs Java's REST server.",
    "MonitorableSourceIntegrationTest": "It reads the metrics of a Java worker within the JVM of the tests.",
    "MonitorableSinkIntegrationTest": "It reads the metrics of a Java worker within the JVM of the tests.",
}
"""Classes that cannot run against a worker in another process, and why."""

_ZOMBIES = "A task that blocks is ended here with its process, so the request succeeds where Java refuses it."
_IN_ITS_JVM = "It sets the REST timeout of a worker in its own JVM, and wants the names of the steps of Java's herder."
_NEVER_STARTED = "It deletes the connector before its task has started: here a task starts in another process, later."
CANNOT_APPLY: dict[tuple[str, str], str] = {
    ("OffsetsApiIntegrationTest", "testAlterSinkConnectorOffsetsZombieSinkTasks"): _ZOMBIES,
    ("OffsetsApiIntegrationTest", "testResetSinkConnectorOffsetsZombieSinkTasks"): _ZOMBIES,
    ("ConnectWorkerIntegrationTest", "testPollTimeoutExpiry"): "It looks for a line of Java's log in its own JVM.",
    ("ConnectWorkerIntegrationTest", "testRequestTimeouts"): _IN_ITS_JVM,
    **{
        ("BlockingConnectorTest", f"testBlockInConnector{call}"): _IN_ITS_JVM
        for call in ("Config", "Initialize", "Start", "Validate")
    },
    ("BlockingConnectorTest", "testBlockInSinkTaskStop"): _NEVER_STARTED,
    ("BlockingConnectorTest", "testBlockInSourceTaskStop"): _NEVER_STARTED,
    ("ExactlyOnceSourceIntegrationTest", "testTasksFailOnInabilityToFence"): (
        "It withholds the right to fence from the connector's admin client. Ours fences with producers, which have it."
    ),
    ("ExactlyOnceSourceIntegrationTest", "testFencedLeaderRecovery"): (
        "A leader whose producer was fenced claims its id again and writes within the request that Java fails once."
    ),
}
"""(class, method) that cannot pass against our workers by its construction, and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one method ended; ``why`` is the first line of its failure."""

    passed: bool
    seconds: float
    why: str = ""


def read_reports(folder: Path) -> dict[tuple[str, str], Outcome]:
    """Return (class, method) -> outcome of all JUnit reports of a folder; a method with parameters counts once."""
    found: dict[tuple[str, str], Outcome] = {}
    for file in sorted(folder.glob("TEST-*.xml")):
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            key = (case.get("classname", "").rpartition(".")[2], case.get("name", "").partition("(")[0])
            failure = next((element for tag in ("failure", "error") for element in case.iter(tag)), None)
            lines = [] if failure is None else (failure.get("message") or failure.text or "failed").splitlines()
            outcome = Outcome(failure is None, float(case.get("time", "0")), lines[0] if lines else "")
            earlier = found.get(key)
            if earlier is not None:
                worse = earlier if not earlier.passed else outcome
                outcome = Outcome(worse.passed, earlier.seconds + outcome.seconds, worse.why)
            found[key] = outcome
    return found


def dump(found: Mapping[tuple[str, str], Outcome]) -> str:
    """Return outcomes as JSON: class -> method -> outcome."""
    classes: dict[str, dict[str, object]] = {}
    for (name, method), outcome in sorted(found.items()):
        classes.setdefault(name, {})[method] = asdict(outcome)
    return json.dumps(classes, indent=1) + "\n"


def load(text: str) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes that ``dump`` wrote."""
    whole = json.loads(text)
    return {
        (name, method): Outcome(**outcome) for name, methods in whole.items() for method, outcome in methods.items()
    }


def summary(found: Mapping[tuple[str, str], Outcome], seconds: float) -> str:
    """Return one line for each failure, and the line of totals that CI tools read."""
    wrong = {key: outcome for key, outcome in found.items() if not outcome.passed and key not in CANNOT_APPLY}
    lines = [f"FAILED {key[0]}.{key[1]}: {outcome.why[:300]}" for key, outcome in sorted(wrong.items())]
    passed = sum(outcome.passed for outcome in found.values())
    barred = len(found) - passed - len(wrong)
    lines += [f"after {seconds:.0f} s; {barred} cannot apply", f"{passed} passed, {len(wrong)} failed"]
    return "\n".join(lines)


def page(found: Mapping[tuple[str, str], Outcome]) -> str:
    """Return the page of the docs: totals by class, then every method that did not pass."""
    classes = sorted({key[0] for key in found}, key=lambda name: (name not in CLASSES, name))
    rows = [_row(name, [(key[1], outcome) for key, outcome in found.items() if key[0] == name]) for name in classes]
    passed = sum(outcome.passed for outcome in found.values())
    text = [
        "# Kafka's own tests",
        "",
        "Apache Kafka tests Connect with integration tests that start brokers and workers.",
        "`./test.sh conformance` runs them, unmodified, against our workers.",
        "Two parts are replaced: the class that starts a worker, and the handles with which test connectors report to",
        "the tests, since our workers run in other processes.",
        "",
        f"**{passed} of {len(found)} methods pass.**",
        "",
        "| class | methods | passed | failed | cannot apply |",
        "|---|---|---|---|---|",
        *rows,
    ]
    wrong = sorted((key, outcome) for key, outcome in found.items() if not outcome.passed)
    if wrong:
        text += ["", "## Methods that did not pass", "", "| method | why |", "|---|---|"]
        text += [f"| `{key[0]}.{key[1]}` | {CANNOT_APPLY.get(key) or _cell(outcome.why)} |" for key, outcome in wrong]
    if unrun := [name for name in CLASSES if name not in classes]:
        text += ["", "## Classes that were not run yet", "", *(f"- `{name}`" for name in unrun)]
    text += ["", "## Classes that cannot run", "", "| class | why |", "|---|---|"]
    text += [f"| `{name}` | {why} |" for name, why in LEFT_OUT.items()]
    return "\n".join(text) + "\n"


def _row(name: str, methods: Iterable[tuple[str, Outcome]]) -> str:
    cases = list(methods)
    passed = sum(outcome.passed for _, outcome in cases)
    barred = sum(not outcome.passed and (name, method) in CANNOT_APPLY for method, outcome in cases)
    return f"| `{name}` | {len(cases)} | {passed} | {len(cases) - passed - barred} | {barred} |"


def _cell(text: str) -> str:
    return " ".join(text.split())[:200].replace("|", "\\|")
