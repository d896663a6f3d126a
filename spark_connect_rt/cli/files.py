"""Files, folders and standard input of ``-f``."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_connect_rt.config.java_properties import parse_properties
from spark_connect_rt.config.repeated_settings import warn_repeated
from spark_connect_rt.errors import BadConfigError, BadRequestError

# Connectors as files have them: JSON, YAML, ``.properties``. Text in, documents out.
#
# JSON and YAML: ``{name, config}`` as ``POST /connectors`` takes it (``initial_state``, ``initial_offsets`` too), a
# plain configuration with its ``name``, a list of either, what ``get connectors -o json`` and ``GET
# /connectors?expand=info`` write, Strimzi's KafkaConnector, a Kubernetes list, and a ConfigMap whose files are
# connectors. YAML may hold several documents. Others than connectors are skipped with a warning that says what
# they are. Every value is the text of the file: ``yes`` and ``007`` stay what they are.


log = logging.getLogger(__name__)

SUFFIXES = (".json", ".yaml", ".yml", ".properties")
MOST_BYTES = 64 * 1024 * 1024
_OF_CONNECTORS = ("connector.class", "KafkaConnector")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")


@dataclass(frozen=True, slots=True)
class Document:
    """One connector that a file asks for. ``state``: wanted always, ``initial_state``: only when it is created."""

    name: str
    config: Mapping[str, str]
    source: str
    initial_state: str | None = None
    initial_offsets: Sequence[Mapping[str, Any]] | None = None
    state: str | None = None


def documents_of(text: str, source: str, default_name: str = "") -> list[Document]:
    """Return the connectors of one file; ``source`` is its name and says by its end what it holds.

    ``default_name``: of a configuration with a class and without a name. Empty: such a configuration is refused.
    Raises BadConfigError: it cannot be read, or does not hold a connector.
    """
    if len(text) > MOST_BYTES:
        raise BadConfigError({source: [f"must be at most {MOST_BYTES} bytes"]})
    try:
        values = _values(text, source.lower())
        whole = [document for value in values for document in _flattened(value)]
        found = [_document(document, source, default_name) for document in whole if not _kind_elsewhere(document)]
    except BadConfigError as error:
        raise BadConfigError({f"{source} {place}": why for place, why in error.problems.items()}) from error
    except (ValueError, RecursionError) as error:
        raise BadConfigError({source: [" ".join(str(error).split()) or type(error).__name__]}) from error
    others = [f"document {number} is {kind}" for number, kind in enumerate(map(_kind_elsewhere, whole), 1) if kind]
    if not found:
        raise BadConfigError({source: [f"contains no connector{': ' if others else ''}{', '.join(others)}"]})
    for other in others:
        log.warning("%s: %s: skipped, not a connector", source, other)
    return found


def without_twins(documents: Iterable[Document]) -> list[Document]:
    """Return the documents. Raises BadConfigError: a name is in two of them."""
    by_name: dict[str, Document] = {}
    problems: dict[str, list[str]] = {}
    for document in documents:
        if document.name in by_name:
            problems.setdefault(document.source, []).append(
                f"connector {document.name} is also in {by_name[document.name].source}"
            )
        by_name[document.name] = document
    if problems:
        raise BadConfigError(problems)
    return list(by_name.values())


def yaml_values(text: str) -> list[Any]:
    """Return the documents of a YAML text, scalars as text. Raises ValueError."""
    import yaml

    class Texts(yaml.BaseLoader):  # type: ignore[misc]
        """No scalar is taken for a number, a date or a switch; but an empty one is None."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            return _once_each(
                (self.construct_object(key, True), self.construct_object(value, True)) for key, value in node.value
            )

    Texts.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
    Texts.add_constructor("tag:yaml.org,2002:null", lambda *_: None)
    try:
        return [document for document in yaml.load_all(text, Texts) if document is not None]
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(str(error)) from error


def _values(text: str, source: str) -> list[Any]:
    if source.endswith(".properties"):
        return [warn_repeated(parse_properties(text), source)]
    if source.endswith(".json") or text.lstrip()[:1] in ("{", "["):
        return [json.loads(text, object_pairs_hook=_once_each)]
    return yaml_values(text)


def _once_each(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} is set twice")
        found[key] = value
    return found


def _flattened(value: Any) -> list[Any]:
    """Return the documents that one holds: of a list, of a Kubernetes list or ConfigMap, of Connect's own answers."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or "config" in value:
        return [value]
    if isinstance(value.get("items"), list):
        return [document for item in value["items"] for document in _flattened(item)]
    if value.get("kind") == "ConfigMap" and isinstance(value.get("data"), dict):
        return _of_config_map(value["data"]) or [value]
    if value and all(isinstance(answer, dict) and isinstance(answer.get("info"), dict) for answer in value.values()):
        return [answer["info"] for answer in value.values()]  # GET /connectors?expand=info
    return [value]


def _of_config_map(data: Mapping[str, Any]) -> list[Any]:
    """Return the connectors among the files of a ConfigMap; other files, such as a worker's, are not for us."""
    files = [
        (name.lower(), text)
        for name, text in data.items()
        if isinstance(text, str) and name.lower().endswith(SUFFIXES) and any(word in text for word in _OF_CONNECTORS)
    ]
    values = [document for name, text in files for value in _values(text, name) for document in _flattened(value)]
    return [value for value in values if isinstance(value, dict) and _has_class(value)]


def _has_class(value: Mapping[str, Any]) -> bool:
    config = value.get("config")
    return "connector.class" in (config if isinstance(config, dict) else value) or value.get("kind") == "KafkaConnector"


def _kind_elsewhere(value: Any) -> str:
    """Return what a document is that is not a connector, such as ``the ConfigMap settings``; empty for all others."""
    if not isinstance(value, dict) or value.get("kind") == "KafkaConnector" or _has_class(value):
        return ""
    if "kind" in value and not {"apiVersion", "metadata", "spec"}.isdisjoint(value):
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"the {value['kind']} {name}" if name else f"a {value['kind']}"
    if isinstance(value.get("connector"), dict) and isinstance(value.get("tasks"), list):
        return "the status of a connector"
    if isinstance(value.get("offsets"), list):
        return "a list of offsets"
    if isinstance(value.get("services"), dict):
        return "a Docker Compose file"
    if "apiVersion" in value:
        return "a document without a kind"
    return "the settings of a worker" if "bootstrap.servers" in value and "name" not in value else ""


def _document(value: Any, source: str, default_name: str) -> Document:
    if not isinstance(value, dict):
        raise ValueError(f"expected a connector, not {type(value).__name__}")
    if value.get("kind") == "KafkaConnector":
        return _of_strimzi(value, source)
    if isinstance(value.get("config"), dict):
        name = value.get("name") or value["config"].get("name") or default_name
        offsets = value.get("initial_offsets")
        if offsets is not None and not isinstance(offsets, list):
            raise ValueError("initial_offsets must be a list")
        state = value.get("initial_state")
        return _made(name, value["config"], source, initial_state=_upper(state), initial_offsets=offsets)
    return _made(value.get("name") or (default_name if "connector.class" in value else None), value, source)


def _of_strimzi(value: Mapping[str, Any], source: str) -> Document:
    spec, metadata = value.get("spec"), value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(spec, dict):
        raise ValueError(f"the KafkaConnector {name or 'without a name'} has no spec")
    config = dict(spec.get("config") or {})
    if spec.get("class"):
        config["connector.class"] = spec["class"]
    if spec.get("tasksMax") is not None:
        config["tasks.max"] = spec["tasksMax"]
    paused = "PAUSED" if str(spec.get("pause")).lower() == "true" else None
    return _made(name, config, source, state=_upper(spec.get("state")) or paused)


def _made(name: Any, config: Mapping[str, Any], source: str, **more: Any) -> Document:
    if not isinstance(name, str) or not name:
        raise ValueError("a connector without a name")
    settings = {str(key): _text(name, str(key), value) for key, value in config.items()}
    return Document(name, {**settings, "name": name}, source, **more)


def _text(name: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    what = "no value" if value is None else "a structure instead of a text"
    raise ValueError(f"connector {name}: the setting {key} has {what}")


def _upper(state: Any) -> str | None:
    return str(state).upper() if state else None


def read_documents(names: Sequence[str]) -> list[Document]:
    """Return the connectors of all files; a folder is read with its subfolders, ``-`` is standard input.

    Raises BadConfigError with every file that cannot be read; then nothing is done.
    """
    if not names:
        raise BadRequestError("no files given. Use -f FILE, -f FOLDER or -f -")
    documents: list[Document] = []
    problems: dict[str, Sequence[str]] = {}
    for name in names:
        try:
            for path, text in _texts(name):
                documents += documents_of(text, path)
        except BadConfigError as error:
            problems.update(error.problems)
    if problems:
        raise BadConfigError(problems)
    return without_twins(documents)


def read_one(name: str, default_name: str = "") -> Document:
    """Return the only connector of a file. Raises BadConfigError. ``default_name`` as of ``documents_of``."""
    documents = [document for path, text in _texts(name) for document in documents_of(text, path, default_name)]
    if len(documents) != 1:
        raise BadConfigError({name: [f"contains {len(documents)} connectors, but must contain one"]})
    return documents[0]


def read_text(name: str) -> str:
    """Return what a file (``-``: standard input) holds. Raises BadConfigError."""
    try:
        if name == "-":
            return sys.stdin.read()
        content = Path(name).read_bytes()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadConfigError({name: [getattr(error, "strerror", None) or str(error)]}) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if name.endswith(".properties"):
            return content.decode("iso-8859-1")  # as Java does
        raise BadConfigError({name: [f"is not valid UTF-8: {error}"]}) from error


def read_json(name: str) -> Any:
    """Return the JSON that a file holds. Raises BadRequestError, BadConfigError."""
    try:
        return json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{name} is not valid JSON: {error}") from error


def read_offsets(name: str) -> list[dict[str, Any]]:
    """Return ``{"partition", "offset"}`` of a file as ``GET /connectors/NAME/offsets`` answers, or of its list alone.

    Raises BadRequestError, BadConfigError.
    """
    found = read_json(name)
    offsets = found.get("offsets") if isinstance(found, dict) else found
    if not isinstance(offsets, list) or not all(
        isinstance(offset, dict) and "partition" in offset for offset in offsets
    ):
        raise BadRequestError(f'{name}: expected {{"offsets": [{{"partition": ..., "offset": ...}}]}}')
    return [{"partition": offset["partition"], "offset": offset.get("offset")} for offset in offsets]


def _texts(name: str) -> Iterable[tuple[str, str]]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        yield ("standard input" if name == "-" else name), read_text(name)
        return
    files = sorted(
        candidate for candidate in path.rglob("*") if candidate.suffix.lower() in SUFFIXES and candidate.is_file()
    )
    if not files:
        raise BadConfigError({name: [f"the folder contains no file of {', '.join(SUFFIXES)}"]})
    for file in files:
        yield str(file), read_text(str(file))
