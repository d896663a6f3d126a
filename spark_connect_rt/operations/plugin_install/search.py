"""Finds connectors to install: on Maven Central, else in a list of well-known ones that comes along."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from spark_connect_rt.base.optional_package import optional_module

_LIMIT = 30
_TIMEOUT_S = 8


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A coordinate, with or without a version, and a few words."""

    coordinate: str
    about: str


@dataclass(frozen=True, slots=True)
class PluginSearchResult:
    """The plug-ins that a search found, and the index that it used."""

    plugins: Sequence[FoundPlugin]
    origin: str


def search_plugins(words: str, ask: Callable[[str], Sequence[FoundPlugin]] | None = None) -> PluginSearchResult:
    """Return what fits the words. ``ask``: instead of Maven Central; after any error of it, the list is used."""
    try:
        return PluginSearchResult((ask or maven_central)(words), "found by Maven Central's search")
    except Exception as error:  # noqa: BLE001 - an index elsewhere: not reachable, or another API by now
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return PluginSearchResult(
            well_known(words), f"from the bundled list, because the search of Maven Central failed ({why})"
        )


def maven_central(words: str) -> list[FoundPlugin]:
    """Ask Maven Central's search. Raises what its client raises."""
    optional_module("jgo", "quickstart", "downloads from Maven Central")
    from jgo.maven import solr_search

    documents = solr_search(f"{words} connect", rows=_LIMIT, timeout=_TIMEOUT_S)
    return [FoundPlugin(_coordinate(document), document.get("p", "")) for document in documents]


def _coordinate(document: Mapping[str, str]) -> str:
    version = document.get("latestVersion") or document.get("v")
    return ":".join(filter(None, (document["g"], document["a"], version)))


def well_known(words: str) -> list[FoundPlugin]:
    """Return those of the list that have all words in them, any case."""
    text = files("spark_connect_rt.operations.plugin_install").joinpath("well_known.json").read_text(encoding="utf-8")
    wanted = words.lower().split()
    return [
        FoundPlugin(coordinate, about)
        for coordinate, about in json.loads(text).items()
        if all(word in f"{coordinate} {about}".lower() for word in wanted)
    ]
