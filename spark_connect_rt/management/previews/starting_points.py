"""Where a preview begins: stored source offsets, a consumer group's offsets, or what was given.

Reads only: no group is joined, no topic made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.config.client_properties import connector_admin_properties, sink_group_id
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import compiled
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.ports.herder import HerderApi
from spark_connect_rt.ports.herder_requests import ReadOffsets
from spark_connect_rt.ports.management.previews import OFFSETS_MAX, From, PreviewRequest
from spark_connect_rt.protocol.ids import TopicPartition
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
