"""One preview in a Python process of an executor: it asks the driver what to do, and answers over the control channel.

Owns that process's part of the connection. Losing the driver, or a connection that it closes, ends the process at once,
whatever plug-ins do in it: a preview that hangs is ended so. Only the ticket crosses by Spark.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_connect_rt.api.connector import Connector, ConnectorContext
from spark_connect_rt.api.plugin_modules import connector_plugin
from spark_connect_rt.base.json_text import decode_json, encode_json
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.executor.control_client import ControlClient
from spark_connect_rt.engine.executor.control_wire import Message, decode_launch, encode_launch
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.executor.late_plugins import ask_this_driver
from spark_connect_rt.engine.executor.slice_halves import exit_when_lost
from spark_connect_rt.engine.executor.task_logs import hide_secrets, mask_logs
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder
from spark_connect_rt.engine.previews.shown_records import Collected, Report, Say
from spark_connect_rt.engine.previews.sink_preview import preview_sink
from spark_connect_rt.engine.previews.source_preview import preview_source
from spark_connect_rt.engine.previews.stage_walk import error_text
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

ROLE = "preview"
_ORDER_LIMIT_S = 30.0
log = logging.getLogger(__name__)


def encode_order(order: PreviewOrder) -> Message:
    """Return an order as a message."""
    return {
        "op": "preview",
        "launch": encode_launch(order.launch),
        "records": order.records,
        "seconds": order.seconds,
        "planned": order.planned,
        # As text: numbers in it may be larger than a message's.
        "offsets": encode_json([[dict(partition), dict(offset)] for partition, offset in order.offsets]).decode(),
        "positions": [list(position) for position in order.positions],
        "put": order.put,
    }


def decode_order(message: Message) -> PreviewOrder:
    """Return the value of ``encode_order``'s message."""
    return PreviewOrder(
        decode_launch(message["launch"]),
        message["records"],
        message["seconds"],
        message["planned"],
        tuple((partition, offset) for partition, offset in decode_json(message["offsets"].encode())),
        tuple((topic, partition, offset) for topic, partition, offset in message["positions"]),
        message["put"],
    )


@dataclass(frozen=True, slots=True)
class PreviewPart:
    """The function that Spark calls for the one partition of a preview's job. Pickles."""

    ticket: SliceTicket

    def __call__(self, rows: Iterator[Any]) -> None:
        """Carry out one preview that the driver orders."""
        mask_logs()
        ask_this_driver(self.ticket)
        orders: queue.Queue[Message] = queue.Queue()

        def take(message: Message) -> None:
            if message["op"] == "preview":
                orders.put(message)

        client = ControlClient(self.ticket, ROLE, exit_when_lost)
        client.listen(take)
        try:
            order = decode_order(orders.get(timeout=_ORDER_LIMIT_S))
            clients = load_clients(self.ticket.clients)
            outcome = carry_out(
                order,
                clients,
                lambda text: client.send({"op": "previewed", "stages": text}),
                lambda what, ended=None: client.send(
                    {"op": "doing", "what": what, "ended": None if ended is None else ended.value}
                ),
            )
            client.send({"op": "over", **outcome})
        finally:
            client.close()


def carry_out(order: PreviewOrder, clients: ExecutorClients, report: Report, say: Say) -> Mapping[str, Any]:
    """Do what is asked; return ``ended`` and ``error``. Never raises what plug-ins do."""
    collected = Collected(order.records, order.seconds, report)
    try:
        launch = order.launch
        hide_secrets(launch)
        if not order.planned and (launch.kind is TaskKind.SOURCE or order.put):
            say("starting the connector")
            launch = planned(launch, clients)
            hide_secrets(launch)
        if launch.kind is TaskKind.SOURCE:
            ended = preview_source(launch, order.offsets, clients, collected, say)
        else:
            ended = preview_sink(launch, order.positions, clients, collected, say, put=order.put)
    except BaseException as error:
        log.info("preview of %s ended by an error", order.launch.task.connector, exc_info=True)
        return {"ended": Ended.ERROR.value, "error": error_text(error)}
    return {"ended": ended.value, "error": None}


def planned(launch: TaskLaunch, clients: ExecutorClients) -> TaskLaunch:
    """Return a launch with the configuration of the one task that has all of its Python connector's work.

    Raises what the connector does; ConnectError: it has no work.
    """
    config = clients.resolve(launch.connector_config, launch.worker_config)
    made = clients.plugin(connector_plugin(config))()
    if not isinstance(made, Connector):
        raise BadConfigError({"connector.class": ["is not a connector"]})
    made.context = PlanningContext()
    try:
        made.start(config)
        tasks = made.task_configs(1)
    finally:
        made.stop()
    return replace(launch, config=StoredConfig(one_task(tasks)))


def one_task(tasks: Any) -> Mapping[str, str]:
    """Return the configuration of the first task. Raises ConnectError: there is none."""
    if not tasks:
        raise ConnectError("the connector has no task: there is nothing to preview")
    return dict(tasks[0])


class PlanningContext(ConnectorContext):
    """The ConnectorContext of a connector that is asked for its tasks once."""

    previewed = True

    def request_task_reconfiguration(self) -> None:
        """Nothing: it is asked once."""

    def raise_error(self, error: Exception) -> None:
        """Say so; its tasks are asked for all the same."""
        log.warning("the connector reports %s", error_text(error))

    def measured(self, values: Any) -> None:
        """Nothing: connectors in Java may measure themselves."""

    def stored_offsets(self, partitions: Any) -> list[Any]:
        """Return none: connectors in Java may ask for them."""
        return [None] * len(partitions)
