"""A configuration as it is stored, as a user or a connector wrote it: ``${alias:path:key}`` references are unresolved.

Java: ``ClusterConfigState.rawConnectorConfig`` and ``connectorConfig``. There both are maps, and each reader has to
remember which one it holds. Here the stored one has a separate type without values to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

Resolved = TypeVar("Resolved")
More = ParamSpec("More")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class StoredConfig:
    """The settings of a connector or a task, as written. Immutable; equals a mapping with the same texts.

    The names may be read here; ``resolved`` gives the values. ``written`` is for code that shows, stores, compares or
    forwards the texts, and never for code that obeys a setting.
    """

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str] = _NOTHING) -> None:
        """Take the texts. The caller must not change the mapping from now on."""
        self._texts = texts

    @classmethod
    def of(cls, config: StoredConfig | Mapping[str, str]) -> StoredConfig:
        """Return the same as this type."""
        return config if isinstance(config, StoredConfig) else cls(config)

    def written(self) -> Mapping[str, str]:
        """Return the texts, to show, store, compare or forward: a value may be a reference."""
        return self._texts

    def resolved(
        self, resolve: Callable[Concatenate[Mapping[str, str], More], Resolved], *more: More.args, **named: More.kwargs
    ) -> Resolved:
        """Return the texts after ``resolve``: values that may be read. Blocks and raises as it does."""
        return resolve(self._texts, *more, **named)

    def only(self, names: Iterable[str]) -> StoredConfig:
        """Return these settings alone, of which some may be missing: a provider is asked for no others."""
        return StoredConfig({name: self._texts[name] for name in names if name in self._texts})

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __len__(self) -> int:
        return len(self._texts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StoredConfig):
            return self._texts is other._texts or self._texts == other._texts
        return self._texts == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._texts.items()))

    def __repr__(self) -> str:
        return f"StoredConfig({sorted(self._texts)})"  # names alone: a message may be shown, and values may be secrets


NO_SETTINGS = StoredConfig()
