"""Where a page of dead letters ended, as an opaque text for the next one. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from spark_connect_rt.errors import BadRequestError

_SIZE_MAX = 200_000  # characters; 10,000 partitions


def encode_cursor(topic_id: str, positions: Mapping[int, int]) -> str:
    """Return the cursor of the next offset by partition; ``topic_id`` changes when the topic is made again."""
    data = json.dumps([topic_id, [[number, positions[number]] for number in sorted(positions)]]).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_cursor(text: str, topic_id: str) -> dict[int, int]:
    """Return the next offset by partition. Raises BadRequestError: no cursor of ours, or of another topic."""
    try:
        if len(text) > _SIZE_MAX:
            raise ValueError("too long")
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        named, pairs = json.loads(data)
        positions: dict[int, int] = dict(pairs)
        if not all(type(number) is int and 0 <= number < 2**63 for pair in positions.items() for number in pair):
            raise ValueError("no offsets")
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise BadRequestError("after: not a valid cursor. Send the unchanged 'next' of the previous page") from error
    if named != topic_id:
        raise BadRequestError("the topic was deleted and created again since that page. Start again without 'after'")
    return positions
