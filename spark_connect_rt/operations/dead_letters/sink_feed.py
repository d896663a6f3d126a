"""How letters reach a sink: side topics, and the connector of a replay's own that reads them. Pure.

The letters are copied, edited, into side topics, one for each topic they came from. A connector with the settings of
the real one reads them, under a name and a consumer group of its own: its first transformations give the records the
topic they came from. What it cannot use goes to a dead letter queue of the replay's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.operations.dead_letters.letter import Letter

PLACE_HEADER = "connectrt.letter"
TOPICS_MAX = 50
_SMT = "org.apache.kafka.connect.transforms"
_QUEUE = "errors.deadletterqueue"
_BROKERS = "consumer.override.bootstrap.servers"
_LEFT_OUT = (
    "topics",
    "topics.regex",
    "consumer.override.group.id",
    "consumer.override.group.instance.id",  # another member of that name may be in the real connector's group
    "tasks.max.auto",  # one task: the letters keep their order, and the replay knows when it is over
)


def feed_name(connector: str, replay_id: str) -> str:
    """Return the name of the connector that feeds the sink."""
    return f"{connector}-replay-{replay_id}"


def side_topic(queue: str, replay_id: str, index: int) -> str:
    """Return the name of a side topic."""
    return f"{queue[:200]}-replay-{replay_id}-{index}"


def refused_topic(queue: str, replay_id: str) -> str:
    """Return the topic of what the sink did not take."""
    return f"{queue[:200]}-replay-{replay_id}-refused"


def place_header(letter: Letter) -> tuple[str, bytes]:
    """Return the header by which a copy is known again; a text in quotes, which most header converters can read."""
    return PLACE_HEADER, f'"{letter.partition}-{letter.offset}"'.encode()


def place_of(headers: Sequence[tuple[str, bytes | None]]) -> tuple[int, int]:
    """Return partition and offset of the letter that a copy was made of. Raises DataError: it is no copy."""
    for name, data in reversed(headers):
        if name == PLACE_HEADER:
            partition, _, offset = (data or b"").decode("ascii", "replace").strip('"').partition("-")
            if partition.isdigit() and offset.isdigit():
                return int(partition), int(offset)
    raise DataError("a record of a side topic is not a copy of a letter: another program writes to that topic")


def check_brokers(config: Mapping[str, str]) -> None:
    """Refuse a sink that reads from brokers of its own: side topics are on the worker's. Raises BadRequestError."""
    if config.get(_BROKERS):
        raise BadRequestError(
            f"connector {config.get('name')} reads from another cluster ({_BROKERS}), but copies of dead letters "
            "can only be written to the worker's own. Replay them to their topics instead"
        )


def feed_config(config: Mapping[str, str], name: str, sides: Sequence[tuple[str, str]], refused: str) -> dict[str, str]:
    """Return the configuration of the connector that feeds the sink.

    Args:
        config: of the real connector, its references as they stand.
        name: of the new one.
        sides: side topic, and the topic its letters came from.
        refused: topic of what the sink does not take.

    Raises BadRequestError: the sink reads from other brokers than the copies are on.
    """
    check_brokers(config)
    made = {setting: value for setting, value in config.items() if setting not in _LEFT_OUT}
    aliases = [f"connectrt_replay_{index}" for index in range(len(sides))]
    for alias, (side, topic) in zip(aliases, sides, strict=True):
        made[f"transforms.{alias}.type"] = f"{_SMT}.RegexRouter"
        made[f"transforms.{alias}.regex"] = side.replace(".", "[.]")
        made[f"transforms.{alias}.replacement"] = topic
    made["transforms.connectrt_replay_place.type"] = f"{_SMT}.DropHeaders"
    made["transforms.connectrt_replay_place.headers"] = PLACE_HEADER
    own = [transform for transform in parse_value(Type.LIST, config.get("transforms") or "") if transform]
    return made | {
        "name": name,
        "topics": ",".join(side for side, _ in sides),
        "tasks.max": "1",
        "transforms": ",".join([*aliases, "connectrt_replay_place", *own]),
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",  # the copies are there before the group is
        "errors.tolerance": "all",
        f"{_QUEUE}.topic.name": refused,
        f"{_QUEUE}.context.headers.enable": "true",
    }
