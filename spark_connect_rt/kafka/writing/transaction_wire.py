"""The one request of transactions that aiokafka lacks: InitProducerId of a producer that has an id (KIP-360)."""

from __future__ import annotations

from spark_connect_rt.kafka.aiokafka_parts import (
    CompactString,
    Int16,
    Int32,
    Int64,
    Request,
    RequestStruct,
    Response,
    Schema,
    TaggedFields,
)

_TEXT = CompactString("utf-8")


class InitProducerIdResponse_v3(Response):  # type: ignore[misc]  # noqa: N801
    """InitProducerId's answer."""

    API_KEY, API_VERSION = 22, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class InitProducerIdRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """InitProducerId that is refused when a newer producer has the transactional id."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 22, 3, InitProducerIdResponse_v3
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class RenewProducerIdRequest(Request[InitProducerIdRequest_v3]):  # type: ignore[misc]
    """Asks for the next epoch of a producer."""

    API_KEY = 22

    def __init__(self, transactional_id: str, timeout_ms: int, producer_id: int, producer_epoch: int) -> None:
        """Take what the producer has."""
        self._fields = (transactional_id, timeout_ms, producer_id, producer_epoch)

    def build(self, request_struct_class: type[InitProducerIdRequest_v3]) -> InitProducerIdRequest_v3:
        """Return what is sent."""
        return request_struct_class(*self._fields, {})
