"""Back to an old configuration: its own one, as it was after a change (ours).

The secrets of then are not known: where a setting is hidden its present value stays, unless the request brings one, and
the rollback is refused where there is neither.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from spark_connect_rt.errors import NotFoundError, UnsafeChangeError
from spark_connect_rt.operations.history.inner_requests import InnerRequests
from spark_connect_rt.operations.history.shapes import RolledBack, WantedRollback
from spark_connect_rt.rest.change_history import CONFIG, Change, ChangeQuery, History
from spark_connect_rt.rest.config_versions import etag
from spark_connect_rt.rest.context import RestContext
from spark_connect_rt.rest.shapes import INITIAL_STATES
from spark_connect_rt.runtime.herder.requests_api import CatchUp, CreateConnector, PutConfig, ValidateConfig
from spark_connect_rt.topics.config_diff import Rollback, SettingChange, config_diff, rolled_back

SEEN = 2_000  # changes of one connector that are looked through


def config_after(history: History, connector: str, number: int) -> Change:
    """Return the change that the configuration after ``number`` comes from. Blocks. Raises NotFoundError.

    After a change of something else it is that of the change of the configuration before it.
    """
    change = history.change(connector, number)
    if change.kind == CONFIG:
        return change
    page = history.changes(ChangeQuery(connector, (CONFIG,), number, 1))
    if not page.changes:
        raise NotFoundError(
            f"change {number} of {connector}: the history does not hold the configuration at that change"
        )
    return page.changes[0]


def diff_between(history: History, connector: str, first: int, second: int) -> list[SettingChange]:
    """Return what differs between the configurations after two changes. Blocks. Raises NotFoundError."""
    before, after = config_after(history, connector, first), config_after(history, connector, second)
    low, high = sorted((before.number, after.number))
    between = history.changes(ChangeQuery(connector, (CONFIG,), high + 1, SEEN)).changes
    unseen = {setting for change in between if change.number > low for setting in change.changed_unseen}
    return config_diff(before.after, after.after, unseen)


async def roll_back(
    context: RestContext, history: History, request: Request, connector: str, number: int, wanted: WantedRollback
) -> RolledBack:
    """Write the configuration as it was after a change. Raises NotFoundError, UnsafeChangeError, as PUT would."""
    loop = asyncio.get_running_loop()
    change = await loop.run_in_executor(None, lambda: config_after(history, connector, number))
    if change.after is None:
        raise UnsafeChangeError(
            f"change {number} deleted connector {connector}, so there is no configuration to roll back to"
        )
    await asyncio.wrap_future(context.herder.submit(CatchUp()))
    views = context.herder.views
    version = views.config_version(connector)
    try:
        present = views.connector_config(connector).written()
    except NotFoundError:
        present = None
    new = rolled_back(change.after, present, wanted.secrets)
    if new.missing:
        raise UnsafeChangeError(
            f"connector {connector} is not rolled back: the history hides {', '.join(new.missing)}, and the "
            "current configuration has no value. Send one in 'secrets'."
        )
    diff = await loop.run_in_executor(None, lambda: _diff(history, present, new, change))
    if wanted.dry_run:
        return RolledBack(diff, False, new.kept, await _problems(context, new))
    if not diff and present is not None:
        return RolledBack((), False, new.kept)
    inner = InnerRequests(context, request, f"rollback to change {number}")
    if present is None:
        state = wanted.initial_state or change.state or "RUNNING"
        config = dict(new.config)
        body = {"name": connector, "config": config, "initial_state": state}
        await inner.done(CreateConnector(connector, config, INITIAL_STATES[state]), "POST", "", body=body)
    else:
        put = PutConfig(connector, new.config, version)
        await inner.done(
            put, "PUT", connector, "/config", dict(new.config), {"if-match": etag(version).get("ETag", "*")}
        )
    return RolledBack(diff, True, new.kept)


def _diff(history: History, present: object, new: Rollback, change: Change) -> list[SettingChange]:
    now = history.shown(present) if isinstance(present, dict) else None
    wanted = dict(change.after or {})
    given = {name for name, value in wanted.items() if name not in new.kept and new.config[name] != value}
    return config_diff(now, wanted, given)


async def _problems(context: RestContext, new: Rollback) -> dict[str, list[str]]:
    """Return what validation says of the configuration."""
    found = await asyncio.wrap_future(context.herder.submit(ValidateConfig(new.config)))
    return {
        config.value.name: list(config.value.errors) for config in found.configs if config.value and config.value.errors
    }
