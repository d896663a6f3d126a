"""One pass over resources of dlt: the source made by its name, its items one after another, its state.

The only module that imports dlt, whose inner parts it needs: a pass does the work of ``Pipeline.extract`` without
files, packages and a destination. Must not: keep state between passes, write any.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pandas  # type: ignore[import-untyped]  # noqa: F401 - dlt imports it later, in any thread: two get half of it
import pyarrow as pa
import requests  # noqa: F401 - as pandas: a task and its connector began dlt at once, and one met half of it
from dlt.common.configuration.container import Container
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.configuration.providers.provider import ConfigProvider
from dlt.common.configuration.specs import ConfigSectionContext, known_sections
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.common.json import json as dlt_json
from dlt.common.pipeline import StateInjectableContext
from dlt.common.schema import Schema
from dlt.extract.decorators import SourceInjectableContext, SourceSchemaInjectableContext
from dlt.extract.exceptions import InvalidResourceDataType, ResourcesNotFoundError
from dlt.extract.extractors import ImportFileMeta
from dlt.extract.hints import HintsMeta
from dlt.extract.items import TableNameMeta
from dlt.extract.pipe_iterator import ManagedPipeIterator
from dlt.extract.reference import SourceFactory
from dlt.extract.resource import DltResource
from dlt.extract.source import DltSource
from dlt.extract.state import reset_resource_state

from spark_connect_rt.connectors.python_sources.passes import named
from spark_connect_rt.connectors.python_sources.table_pages import Page, TableHints
from spark_connect_rt.errors import ConnectError

CODE_REFERENCE, CODE_ITEM = "CRT-1141", "CRT-1142"
State = dict[str, Any]
_local = threading.local()
_POOL_THREAD = re.compile(r"dlt-pool-(\d+)-")  # how dlt names threads that work for another, by that one's identity
_of_pools: dict[int, Mapping[str, Any]] = {}  # settings of the connector that a thread works for, for its pool
_TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "bigint": pa.int64(),
    "binary": pa.binary(),
}


class _ConnectorSettings(ConfigProvider):  # type: ignore[misc]
    """The settings that the connector of the present thread gives dlt.

    Other connectors of the process have their own.
    """

    def get_value(self, key: str, hint: Any, pipeline_name: str | None, *sections: str) -> tuple[Any, str]:
        path = [*sections, key]
        node: Any = _present_settings()
        for name in path:
            node = node.get(name) if isinstance(node, Mapping) else None
        return node, ".".join(path)

    @property
    def supports_secrets(self) -> bool:
        return True

    @property
    def supports_sections(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "spark-connect-rt"


def _present_settings() -> Mapping[str, Any]:
    """Return the settings of the connector that this thread works for, itself or in the pool of its thread."""
    pool = _POOL_THREAD.match(threading.current_thread().name)
    if pool is None:
        return getattr(_local, "settings", {})
    return _of_pools.get(int(pool.group(1)), {})


@cache
def _provider() -> ConfigProvider:
    provider = _ConnectorSettings()
    Container()[PluggableRunContext].providers.providers.insert(0, provider)
    return provider


@contextmanager
def _settings(settings: Mapping[str, Any]) -> Iterator[None]:
    _provider()
    before = getattr(_local, "settings", {})
    _local.settings = settings
    try:
        yield
    finally:
        _local.settings = before


@contextmanager
def _understood(reference: str) -> Iterator[None]:
    """Raise ConnectError for an invalid configuration of a source: a second try does not help."""
    try:
        yield
    except (ConfigurationException, ResourcesNotFoundError, InvalidResourceDataType) as error:
        raise ConnectError(f"dlt.source={reference}: {error}", code=CODE_REFERENCE) from error
    except TypeError as error:
        raise ConnectError(
            f"dlt.source={reference} does not take dlt.arguments: {error}", code=CODE_REFERENCE
        ) from error


def check_reference(reference: str) -> None:
    """Return when ``reference`` names a source or resource of dlt. Raises ConnectError."""
    _factory(reference)


def _factory(reference: str) -> Any:
    """Return the source for ``module:name``, or for the name of a source in dlt itself. Raises ConnectError.

    Only objects of dlt's decorators are accepted: a configuration must not call arbitrary functions.
    """
    module, colon, name = reference.rpartition(":" if ":" in reference else ".")
    try:
        found = named(module, name) if colon else named(f"dlt.sources.{name}", name)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"dlt.source={reference} cannot be found: {error}"
        raise ConnectError(message, code=CODE_REFERENCE) from error
    if not isinstance(found, SourceFactory | DltResource | DltSource):
        kind = type(found).__name__
        message = f"dlt.source={reference} is a {kind}, but must be made by @dlt.source or @dlt.resource"
        raise ConnectError(message, code=CODE_REFERENCE)
    return found


def _made(reference: str, arguments: Mapping[str, Any]) -> DltSource:
    found = _factory(reference)
    if isinstance(found, SourceFactory) or (arguments and isinstance(found, DltResource)):
        found = found(**arguments)
    elif isinstance(found, DltResource) and not found.args_bound:
        found = found()
    if isinstance(found, DltResource):
        return DltSource(Schema(found.name), found.section or found.name, [found])
    return found.clone()


def units_of(
    reference: str, arguments: Mapping[str, Any], settings: Mapping[str, Any], chosen: Sequence[str]
) -> dict[str, list[str]]:
    """Return the selected resources by their common root. Each group can be read apart from the others."""
    with _settings(settings), _understood(reference):
        source = _made(reference, arguments)
        if chosen:
            source.resources.select(*chosen)
    units: dict[str, list[str]] = {}
    for name, resource in source.resources.selected.items():
        pipe = resource._pipe
        while pipe.parent is not None:
            pipe = pipe.parent
        units.setdefault(pipe.name, []).append(name)
    return units


def state_text(state: State) -> str:
    """Return a state as JSON; dlt's own marks distinguish times and decimals from text."""
    return str(dlt_json.typed_dumps(state, sort_keys=True))


def state_of(text: str) -> State:
    """Return a new state from the text of ``state_text``. Raises ConnectError: it is invalid."""
    found = dlt_json.typed_loads(text)
    if not isinstance(found, dict):
        raise ConnectError(f"dlt's state must be a JSON object, not {text}")
    return found


class DltPass:
    """Reads resources of one source to their end, once."""

    def __init__(
        self,
        reference: str,
        arguments: Mapping[str, Any],
        settings: Mapping[str, Any],
        resources: Sequence[str],
        state: State,
    ) -> None:
        """Create the source and begin. ``state`` is the source's, and is changed as items are read.

        Raises ConnectError: there is no such source, or its configuration is incomplete. Raises any error of the
        source.
        """
        self._settings = settings
        self._hints: dict[tuple[str, str], tuple[str, TableHints]] = {}
        whole: State = {known_sections.SOURCES: {}}
        injected = Container().injectable_context(StateInjectableContext(state=whole))
        with _settings(settings), _understood(reference), injected:
            self._source = source = _made(reference, arguments)
            source.resources.select(*resources)
        self.state = whole[known_sections.SOURCES][source.name] = state
        section = ConfigSectionContext(
            sections=(known_sections.SOURCES, source.section, source.name), source_state_key=source.name
        )
        contexts = [
            section,
            StateInjectableContext(state=whole),
            SourceSchemaInjectableContext(source.schema),
            SourceInjectableContext(source),
        ]
        with _settings(settings), ExitStack() as stack:
            for context in contexts:
                stack.enter_context(Container().injectable_context(context))
            for resource in source.resources.extracted:
                if resource.write_disposition == "replace":  # read whole each time, as dlt does
                    reset_resource_state(resource.name)
            self._items = ManagedPipeIterator.from_pipes(source.resources.selected_pipes)
        self._items.set_context(contexts)

    def next(self) -> list[tuple[str, TableHints, Page]]:
        """Return the next item's pages by table. Raises StopIteration: there is none. Raises any error of the source.

        Call it from one thread, to which dlt's pool belongs. The pool continues between calls, so it keeps the
        settings.
        """
        _of_pools[threading.get_ident()] = self._settings
        with _settings(self._settings):
            item = next(self._items)
            return list(self._tables(item))

    def ordered(self) -> bool:
        """Return whether the state is right after each item: every resource is sorted by its cursor."""
        resources = self._source.resources
        alone = all(resource._pipe.parent is None for resource in resources.selected.values())
        return alone and all(_comes_in_order(resource) for resource in resources.selected.values())

    def close(self) -> None:
        """End the pass before its end."""
        with _settings(self._settings):
            self._items.close()

    def _tables(self, item: Any) -> Iterator[tuple[str, TableHints, Page]]:
        resource, meta = self._source.resources.with_pipe(item.pipe), item.meta
        if isinstance(meta, ImportFileMeta):
            raise ConnectError(
                f"{resource.name} returns a file to import, but only records are supported", code=CODE_ITEM
            )
        if isinstance(meta, HintsMeta) and meta.hints:
            resource.merge_hints(meta.hints, meta.create_table_variant)
            meta = TableNameMeta(meta.hints["table_name"]) if meta.create_table_variant else meta
            self._hints.clear()
        page = _page(item.item)
        if resource.has_dynamic_table_name and not isinstance(page, pa.Table | pa.RecordBatch):
            by_table: dict[str, list[Any]] = {}
            for row in page:
                by_table.setdefault(resource._table_name_hint_fun(row), []).append(row)
            for table, rows in by_table.items():
                yield *self._known(resource, rows[0], TableNameMeta(table), table), rows
        else:
            named = meta.table_name if isinstance(meta, TableNameMeta) else ""
            yield *self._known(resource, item.item, meta, named), page

    def _known(self, resource: DltResource, item: Any, meta: Any, table: str) -> tuple[str, TableHints]:
        known = self._hints.get((resource.name, table))
        if known is None:
            schema = resource.compute_table_schema(item, meta)
            known = (table or schema["name"], _hints(schema.get("columns") or {}))
            self._hints[resource.name, table] = known
        return known


def _comes_in_order(resource: DltResource) -> bool:
    step = resource.incremental
    incremental = getattr(step, "incremental", step)
    return incremental is not None and incremental.row_order == "asc"


def _hints(columns: Mapping[str, Mapping[str, Any]]) -> TableHints:
    keys = tuple(name for name, column in columns.items() if column.get("primary_key"))
    deleted = next((name for name, column in columns.items() if column.get("hard_delete")), None)
    types = {name: kind for name, column in columns.items() if (kind := _TYPES.get(column.get("data_type", "")))}
    return TableHints(keys, deleted, types)


def _page(item: Any) -> Page:
    """Return an item as a page: Arrow as it is, frames as Arrow, all else as rows."""
    if isinstance(item, pa.Table | pa.RecordBatch):
        return item
    if type(item).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(item, preserve_index=False)
    if hasattr(item, "to_arrow"):
        return item.to_arrow()
    return [_row(entry) for entry in (item if isinstance(item, list) else [item])]


def _row(item: Any) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return item
    if hasattr(item, "model_dump"):
        found: Mapping[str, Any] = item.model_dump()
        return found
    return {"value": item}
