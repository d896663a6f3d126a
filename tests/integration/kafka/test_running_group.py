"""A group of workers seen from outside (the client's newer calls see no such groups)."""

from __future__ import annotations

import uuid

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin
from tests.contract.group_member_contract import Herder, until
from tests.support.group_members import new_member


def test_a_connect_group_is_active_while_it_has_a_member(broker: EmbeddedKafka) -> None:
    group = f"connect-{uuid.uuid4()}"
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    admin = KafkaAdmin(settings)
    assert not admin.group_is_active(group)
    herder = Herder("a", new_member({**settings, "group.id": group}))
    try:
        until(herder.is_settled, [herder])
        assert admin.group_is_active(group)
    finally:
        herder.member.stop()
    assert not admin.group_is_active(group)
    admin.close()
