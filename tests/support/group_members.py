"""Group members on real connections, from worker properties by their Java names."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.config.client_properties import shared_client_properties
from spark_connect_rt.kafka.membership.group_member import KafkaGroupMember
from spark_connect_rt.kafka.membership.group_settings import MemberSettings, member_settings
from spark_connect_rt.testing.worker_settings import worker_settings


def settings_of(given: Mapping[str, object], client_id: str = "") -> MemberSettings:
    """Return the arguments for a new member."""
    texts = {name: str(value) for name, value in given.items()}
    worker = worker_settings({**texts, "client.id": client_id or texts.get("client.id", "")})
    return member_settings(worker.group, worker.connection, shared_client_properties(worker))


def new_member(given: Mapping[str, object], client_id: str = "") -> KafkaGroupMember:
    """Return a member, not started."""
    return KafkaGroupMember(settings_of(given, client_id))
