from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tools.environment.__main__ import brings_kafka, main
from tools.environment.causes import EXIT_NO_ENVIRONMENT, EXIT_NO_PYTHON, failure_of, too_little_space
from tools.environment.installers import shown_lines, uv_variables, without_big
from tools.environment.listeners import EXIT_LISTENER_TAKEN, listeners_of, taken_port
from tools.environment.programs import Bars, without_bars

PIP_WITHOUT_NETWORK = """\
WARNING: Retrying (Retry(total=1, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
connection: [Errno -3] Temporary failure in name resolution')': /simple/uv/
ERROR: Could not find a version that satisfies the requirement uv==0.13.9 (from versions: none)
ERROR: No matching distribution found for uv==0.13.9
"""
UV_WITHOUT_NETWORK = """\
error: Failed to fetch: `https://index.example/simple/rich/`
  Caused by: Request failed after 3 retries
  Caused by: error sending request for url (https://index.example/simple/rich/)
  Caused by: client error (Connect)
  Caused by: dns error
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PIP_WITHOUT_NETWORK, ("index cannot be reached", "HTTPS_PROXY", "continues")),
        (UV_WITHOUT_NETWORK, ("index cannot be reached", "HTTPS_PROXY", "continues")),
        ("error: failed to copy file: No space left on device (os error 28)", ("disk is full", "3.5 GB", "continues")),
        ("OSError: [Errno 122] Disk quota exceeded", ("disk is full",)),
        ("error: Read-only file system (os error 30) at path .venv", ("read-only", "CONNECTRT_VENV")),
        ("[Errno 13] Permission denied: '.venv'", ("cannot be written", "CONNECTRT_VENV")),
        ("invalid peer certificate: UnknownIssuer, error sending request", ("certificate", "SSL_CERT_FILE")),
    ],
)
def test_a_failure_names_its_cause_and_the_fix(text: str, words: tuple[str, ...]) -> None:
    failure = failure_of(text)
    assert failure.exit_code == EXIT_NO_ENVIRONMENT
    assert failure.final
    for word in words:
        assert word in failure.sentence


def test_a_python_without_venv_has_the_exit_code_of_a_missing_python() -> None:
    failure = failure_of("The virtual environment was not created successfully because ensurepip is not available.")
    assert failure.exit_code == EXIT_NO_PYTHON
    assert "apt install python3-venv" in failure.sentence


def test_an_unknown_failure_shows_the_last_lines_and_leaves_pip_its_turn() -> None:
    failure = failure_of("\n".join(f"line {number}" for number in range(20)) + "\n\n")
    assert "line 19" in failure.sentence
    assert "line 9" not in failure.sentence
    assert not failure.final


def test_too_little_space_is_found_before_anything_is_downloaded() -> None:
    assert too_little_space(3_000_000_000, 3_000_000_000, "/data") is None
    failure = too_little_space(1_100_000_000, 3_000_000_000, "/data")
    assert failure is not None
    assert "/data has 1.1 GB free, and a new environment needs 3.0 GB" in failure.sentence


def test_uv_uses_what_pip_is_configured_to_use() -> None:
    listed = """\
global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'
global.index-url='https://mirror.example/simple'
:env:.cert='/etc/certs.pem'
global.trusted-host='mirror.example'
global.timeout='60'
install.find-links='/wheels'
"""
    assert uv_variables(listed, {"SSL_CERT_FILE": "/mine.pem"}) == {
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_FIND_LINKS": "/wheels",
    }
    assert uv_variables("", {}) == {}


def test_the_first_step_installs_all_but_the_big_source_distribution() -> None:
    assert without_big("py4j==0.10.9\npyspark==4.3.0\nrich==15.0\n") == "py4j==0.10.9\nrich==15.0\n"


def test_without_a_terminal_only_lines_about_downloads_and_builds_are_shown() -> None:
    text = "Resolved 80 packages in 1s\nDownloading pyspark (437.2MiB)\n   Building pyspark==4.3.0\n + rich==15.0\n"
    assert shown_lines(text) == ["Downloading pyspark (437.2MiB)", "Building pyspark==4.3.0"]


def test_bars_are_shown_and_the_list_of_packages_behind_them_is_not() -> None:
    pieces = [
        b"Prepared 3\r",
        b"\x1b[2mInst",
        b"alled \x1b[1m3 packages\x1b[0m in 1s\n + rich==15.0\n",
        b" + typer==1\n",
    ]
    piece_by_piece, at_once = Bars(), Bars()
    shown = b"".join(piece_by_piece.visible(piece) for piece in pieces)
    assert shown.startswith(b"Prepared 3\r")
    assert b"rich" not in shown
    assert at_once.visible(b"".join(pieces)) == b"Prepared 3\r"


def test_megabytes_of_bars_cost_no_time() -> None:
    bars, began = Bars(), time.process_time()
    for _ in range(3_000):
        bars.visible(b"\r- pyspark 1 MiB/437 MiB" * 50)
    assert time.process_time() - began < 2.0


def test_the_log_has_no_bars() -> None:
    assert without_bars("\x1b[32ma\x1b[0m 1%\ra 100%\r\nerror: x\n") == "a 100%\nerror: x\n"


def test_listeners_come_from_the_file_and_its_overrides(tmp_path: Path) -> None:
    (tmp_path / "w.properties").write_text("group.id=g\nlisteners = http://a:1, https://b:2\n")
    (tmp_path / "bare.properties").write_text("group.id=g\n#listeners=http://a:1\n")
    assert listeners_of(["w.properties"], tmp_path) == ["http://a:1", "https://b:2"]
    assert listeners_of(["--standalone", "w.properties", "c.json"], tmp_path) == ["http://a:1", "https://b:2"]
    assert listeners_of(["w.properties", "--set", "listeners=http://c:3"], tmp_path) == ["http://c:3"]
    assert listeners_of(["w.properties", "--set=listeners=http://c:3"], tmp_path) == ["http://c:3"]
    assert listeners_of(["bare.properties"], tmp_path) == ["http://:8083"]
    assert listeners_of(["missing.properties"], tmp_path) == []
    assert listeners_of(["--mirror", "mm.properties"], tmp_path) == []
    assert listeners_of([], tmp_path) == []


def test_a_port_in_use_is_found_before_an_environment_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        (tmp_path / "w.properties").write_text(f"listeners=http://127.0.0.1:{port}\n")
        words = ["--venv", str(tmp_path / "env"), "--lock", "none.lock", "--stamp", "1", "--folder", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["tools.environment", *words, "--", "--standalone", "w.properties"])
        assert main() == EXIT_LISTENER_TAKEN
    said = capsys.readouterr().err
    assert f"cannot listen on http://127.0.0.1:{port} (setting 'listeners'): another process uses the port" in said
    assert "--set listeners=http://127.0.0.1:0" in said
    assert not (tmp_path / "env").exists()
    assert taken_port(["http://127.0.0.1:0", f"http://127.0.0.1:{port}", "nonsense", "http://host.invalid:1"]) is None


def test_jars_are_downloaded_ahead_for_a_job_with_its_own_kafka_only() -> None:
    quickstart = Path(__file__).parents[3] / "conf" / "quickstart.properties"
    assert brings_kafka(quickstart)
    assert not brings_kafka(quickstart.with_name("connect-distributed.properties"))
    assert not brings_kafka(quickstart.with_name("missing.properties"))
    assert not brings_kafka(None)
