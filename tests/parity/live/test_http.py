"""What stands around the REST API, beside Java: listeners, https, /admin apart, other origins, headers, basic auth."""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import Java
from tests.support.java_connect import COORDINATES, JavaConnect
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

pytestmark = pytest.mark.timeout(600)  # the first test's set-up is both workers, one after the other
PASSWORD = "secret"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension"
ANN, GOOD = ("ann", "secret"), {"Origin": "http://good.example"}
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
LIMIT_S = 120.0
COMPARED = ("content-type", "vary", "cache-control", "x-two", "x-one", "x-date", "expires", "www-authenticate")
CORS = ("access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers")


@dataclass(frozen=True)
class Call:
    """One request; ``to`` is http, https or admin."""

    name: str
    path: str = "/connectors"
    method: str = "GET"
    to: str = "http"
    user: tuple[str, str] | None = ANN
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    key: str = ""  # the client's certificate: client, stranger


CALLS = (
    Call("plain", "/"),
    Call("https without a certificate", "/", to="https"),
    Call("https with a certificate", "/", to="https", key="client"),
    Call("https with a stranger's certificate", "/", to="https", key="stranger"),
    Call("admin listener, root", "/", to="admin", user=None),
    Call("admin listener, connectors", to="admin", user=None),
    Call("admin listener, health", "/health", to="admin", user=None),
    Call("admin on the main listener", "/admin/loggers"),
    Call("unknown path", "/nope"),
    Call("allowed origin", headers=GOOD),
    Call("allowed origin, a pattern", headers={"Origin": "http://a.other.example"}),
    Call("almost the allowed origin", headers={"Origin": "http://good.example.evil"}),
    Call("another origin", headers={"Origin": "http://evil.example"}),
    Call("preflight", method="OPTIONS", headers=GOOD | PREFLIGHT),
    Call(
        "preflight, method that is not allowed",
        method="OPTIONS",
        headers=GOOD | {"Access-Control-Request-Method": "DELETE"},
    ),
    Call("preflight of another origin", method="OPTIONS", headers={"Origin": "http://evil.example"} | PREFLIGHT),
    Call("preflight of an unknown path", "/nope", method="OPTIONS", headers=GOOD | PREFLIGHT),
    Call("options of an allowed origin", method="OPTIONS", headers=GOOD),
    Call("allowed origin, refused request", method="POST", headers=GOOD, body=b'{"name":"a","config":{}}'),
    Call("topics of a connector that is not there", "/connectors/a/topics"),
    Call("topics are not reset here", "/connectors/a/topics/reset", method="PUT"),
    Call("nobody", user=None),
    Call("wrong password", user=("ann", "wrong")),
    Call("unknown user", user=("eve", "secret")),
    Call("escaped password", user=("bob", "pAss")),
    Call("another scheme", user=None, headers={"Authorization": "Bearer x"}),
    Call("lower case scheme", user=None, headers={"Authorization": "basic YW5uOnNlY3JldA=="}),
    Call("no colon", user=None, headers={"Authorization": "Basic YW5u"}),
    Call("health of nobody", "/health", user=None),
    Call("tasks of nobody", "/connectors/a/tasks", user=None),
    Call("task configurations of nobody", "/connectors/a/tasks", method="POST", user=None, body=b"[]"),
    Call("task configurations of nobody, last slash", "/connectors/a/tasks/", method="POST", user=None, body=b"[]"),
    Call("fence of nobody", "/connectors/a/fence", method="PUT", user=None),
    Call("unknown path of nobody", "/nope", user=None),
    Call("credentials that are no base64", user=None, headers={"Authorization": "Basic !!!"}),
)
WANTED = {  # docs/reference/differences.md, "Basic auth"
    "unknown path of nobody": (404, 401),
    "credentials that are no base64": (500, 401),
}


class Setting:
    """Certificates, users, and the worker settings that use them; the same files for both workers."""

    def __init__(self, folder: Path, java: Java) -> None:
        self.folder = folder
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
        trustme.CA().issue_cert("stranger").private_key_and_cert_chain_pem.write_to_path(str(folder / "stranger.pem"))
        server = authority.issue_cert("127.0.0.1")
        key = serialization.load_pem_private_key(server.private_key_pem.bytes(), None)
        chain = [x509.load_pem_x509_certificate(pem.bytes()) for pem in server.cert_chain_pems]
        sealed = serialization.BestAvailableEncryption(PASSWORD.encode())
        store = pkcs12.serialize_key_and_certificates(b"server", key, chain[0], chain[1:], sealed)  # type: ignore[arg-type]
        (folder / "server.p12").write_bytes(store)
        keytool = [str(java.executable), "sun.security.tools.keytool.Main", "-importcert", "-noprompt", "-alias", "ca"]
        keytool += ["-file", folder / "ca.pem", "-keystore", folder / "trust.jks", "-storetype", "jks"]
        subprocess.run([*map(str, keytool), "-storepass", PASSWORD], check=True, capture_output=True)
        (folder / "users").write_text("ann=secret\nbob = p\\u0041ss\n")
        module = f'{EXTENSION}.PropertyFileLoginModule required file="{folder / "users"}"'
        (folder / "login.conf").write_text(f"KafkaConnect {{\n  {module};\n}};\n")

    def properties(self, ports: Mapping[str, int]) -> dict[str, str]:
        tls = {
            "keystore.type": "PKCS12",
            "keystore.location": str(self.folder / "server.p12"),
            "keystore.password": PASSWORD,
            "key.password": PASSWORD,
            "truststore.type": "JKS",
            "truststore.location": str(self.folder / "trust.jks"),
            "truststore.password": PASSWORD,
            "client.auth": "required",
        }
        return {
            "listeners": f"http://127.0.0.1:{ports['http']},https://127.0.0.1:{ports['https']}",
            "admin.listeners": f"http://127.0.0.1:{ports['admin']}",
            **{f"listeners.https.ssl.{name}": value for name, value in tls.items()},
            "access.control.allow.origin": "http://good.example,http://.*[.]other[.]example",
            "access.control.allow.methods": "GET,POST,PUT",
            "topic.tracking.allow.reset": "false",
            "response.http.headers.config": (
                'add Cache-Control: no-cache, "set X-Two: a, b", setDate X-Date: 0, set X-One: 0, set X-One: 1,'
                "addDate Expires: 31540000000"
            ),
            "rest.extension.classes": f"{EXTENSION}.BasicAuthSecurityRestExtension",
        }

    def ask(self, call: Call, ports: Mapping[str, int]) -> dict[str, Any]:
        """Return what two workers must agree in; an aborted handshake is an answer, too."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if call.key:
            context.load_cert_chain(str(self.folder / f"{call.key}.pem"))
        headers = {**call.headers} | ({"Content-Type": "application/json"} if call.body else {})
        url = f"{'https' if call.to == 'https' else 'http'}://127.0.0.1:{ports[call.to]}{call.path}"
        try:
            with httpx.Client(verify=context, trust_env=False, timeout=30) as client:
                answer = client.request(call.method, url, headers=headers, content=call.body, auth=call.user)
        except httpx.TransportError:
            return {"status": 0}
        kept = {name: answer.headers.get(name) for name in COMPARED}
        cors = {name: sorted((answer.headers.get(name) or "").split(",")) for name in CORS}
        return {"status": answer.status_code, "body": _body(answer), **_dates_as_days(kept), **cors}


def _body(answer: httpx.Response) -> Any:
    if not answer.text.startswith(("{", "[")):
        return ",".join(sorted(answer.text.split(", "))) if answer.request.method == "OPTIONS" else answer.text
    body = answer.json()
    masked = ("commit", "kafka_cluster_id", "code", "hint")
    return {key: value for key, value in body.items() if key not in masked} if isinstance(body, dict) else body


def _dates_as_days(headers: dict[str, Any]) -> dict[str, Any]:
    return {key: value[:16] if key in ("x-date", "expires") and value else value for key, value in headers.items()}


class JavaWithAuth(JavaConnect):
    """The oracle with its basic-auth extension and a login file."""

    login_file = Path()

    def command(self, properties_file: Path) -> list[str]:
        command = super().command(properties_file)
        return [command[0], f"-Djava.security.auth.login.config={self.login_file}", *command[1:]]


class OursWithAuth(SparkWorkerProcess):
    """Ours, told of the login file as a Java worker's start script does."""

    login_file = Path()

    def environment(self) -> dict[str, str]:
        option = f"-Xmx256m -Djava.security.auth.login.config={self.login_file}"
        return {**super().environment(), "KAFKA_OPTS": option}


@pytest.fixture(scope="module")
def setting(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return Setting(tmp_path_factory.mktemp("http"), java)


def _answers(worker: WorkerProcess, setting: Setting, ports: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    worker.launch()
    try:
        deadline = time.monotonic() + LIMIT_S
        while setting.ask(Call("ready", "/health"), ports)["status"] != 200:
            assert time.monotonic() < deadline, worker.log_file.read_text()[-3000:]
            time.sleep(0.1)
        return {call.name: setting.ask(call, ports) for call in CALLS}
    finally:
        worker.stop()
        worker.rest.close()


@pytest.fixture(scope="module")
def answers(
    broker: EmbeddedKafka, java: Java, setting: Setting, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(Java's, ours) by the name of the call."""
    jars = resolve_jars([*COORDINATES, f"org.apache.kafka:connect-basic-auth-extension:{KAFKA_VERSION}"])
    found = []
    for name in ("java", "ours"):
        ports = dict(zip(("http", "https", "admin"), free_ports(3), strict=True))
        folder, servers = tmp_path_factory.mktemp(f"http-{name}"), broker.bootstrap_servers
        settings, group = setting.properties(ports), f"http-{name}"
        worker: JavaWithAuth | OursWithAuth
        if name == "java":
            worker = JavaWithAuth(folder, servers, group, properties=settings, java=java, jars=jars)
        else:
            worker = OursWithAuth(folder, servers, group, properties=settings)
        worker.login_file = setting.folder / "login.conf"
        found.append(_answers(worker, setting, ports))
    return found[0], found[1]


@pytest.mark.parametrize("name", [call.name for call in CALLS])
def test_ours_answers_as_java_does(answers: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    theirs, ours = answers[0][name], answers[1][name]
    if name in WANTED:
        assert (theirs["status"], ours["status"]) == WANTED[name]
        return
    assert ours == theirs
