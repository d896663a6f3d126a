"""HTTP between workers: forwarding, and signed internal requests (Java ``RestClient``)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from spark_connect_rt.errors import BadRequestError, NotAssignedError, NotLeaderError


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """The answer of another worker, whatever its status."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class PeerClient(Protocol):
    """Sends one request to another worker. Any thread; blocks."""

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """Return the answer. Raises UnreachableError (nothing was sent), RetriableError, TimedOutError."""

    def close(self) -> None:
        """Close all connections to other workers."""


# Signature of requests between workers (Java ``InternalRequestSignature``, KIP-507).
#
# Owns: the two headers and the HMAC over the raw body (an absent body counts as empty). The callers decide which worker
# holds the key and which HTTP status a rejected request gets.


SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"

_DIGESTS = {
    "hmacmd5": "md5",
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
}


class SignatureVerdict(Enum):
    """The result of checking a signature."""

    VALID = "valid"
    MISSING = "missing"  # no signature, or no algorithm named
    ALGORITHM_REFUSED = "algorithm refused"
    KEY_UNKNOWN = "key unknown"  # this worker has read no session key yet
    MISMATCH = "mismatch"


def sign(key: bytes, algorithm: str, body: bytes | None) -> dict[str, str]:
    """Return the headers to add. Raises BadRequestError for an algorithm unknown here."""
    signature = base64.b64encode(_mac(key, algorithm, body)).decode("ascii")
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


def verify(
    key: bytes | None, accepted_algorithms: Sequence[str], headers: Mapping[str, str], body: bytes | None
) -> SignatureVerdict:
    """Check the headers (their names in any case) against the body, in Java's order of checks.

    Raises BadRequestError for a signature that is not base64 or an accepted algorithm unknown here.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    signature, algorithm = lower.get(SIGNATURE_HEADER.lower()), lower.get(ALGORITHM_HEADER.lower())
    if signature is None or algorithm is None:
        return SignatureVerdict.MISSING
    if algorithm not in accepted_algorithms:
        return SignatureVerdict.ALGORITHM_REFUSED
    if key is None:
        return SignatureVerdict.KEY_UNKNOWN
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequestError("the internal request's signature is not base64") from error
    return (
        SignatureVerdict.VALID if hmac.compare_digest(given, _mac(key, algorithm, body)) else SignatureVerdict.MISMATCH
    )


def _mac(key: bytes, algorithm: str, body: bytes | None) -> bytes:
    digest = _DIGESTS.get(algorithm.lower())
    if digest is None:
        raise BadRequestError(f"unknown MAC algorithm {algorithm!r}")
    return hmac.new(key, body or b"", digest).digest()


# Which worker must serve a request: any worker, the leader, or the owner (Java ``DistributedHerder``).


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """The role of this worker in the group when the request is served."""

    is_leader: bool
    leader_url: str | None


def require_leader(standing: GroupStanding, what: str) -> None:
    """Raise NotLeaderError unless this worker leads. ``what``: ``create connector a``, for the message."""
    if not standing.is_leader:
        raise NotLeaderError(f"Only the leader can {what}.", standing.leader_url)


def require_owner(standing: GroupStanding, owned: bool, owner_url: str | None, what: str) -> None:
    """Raise unless this worker owns the subject of the request.

    A follower sends it to the leader, which alone knows the owners (owner map of the last assignment).
    """
    if owned:
        return
    if not standing.is_leader:
        raise NotLeaderError(f"Cannot {what}: it does not run on this worker.", standing.leader_url)
    raise NotAssignedError(f"Cannot {what}: it does not run on this worker.", owner_url)
