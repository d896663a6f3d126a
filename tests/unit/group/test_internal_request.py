import base64

import pytest

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.group.peers import ALGORITHM_HEADER, SIGNATURE_HEADER, SignatureVerdict, sign, verify

KEY = b"k" * 32
ACCEPTED = ("HmacSHA256",)


def test_the_signature_is_the_hmac_of_the_raw_body() -> None:
    # RFC 4231, test case 2
    headers = sign(b"Jefe", "HmacSHA256", b"what do ya want for nothing?")
    assert headers == {
        SIGNATURE_HEADER: base64.b64encode(
            bytes.fromhex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        ).decode(),
        ALGORITHM_HEADER: "HmacSHA256",
    }


def test_a_signed_body_verifies_and_another_does_not() -> None:
    headers = {name.upper(): value for name, value in sign(KEY, "HmacSHA256", b"[]").items()}
    assert verify(KEY, ACCEPTED, headers, b"[]") is SignatureVerdict.VALID
    assert verify(KEY, ACCEPTED, headers, b"[ ]") is SignatureVerdict.MISMATCH
    assert verify(b"other", ACCEPTED, headers, b"[]") is SignatureVerdict.MISMATCH


def test_no_body_is_an_empty_body() -> None:
    assert verify(KEY, ACCEPTED, sign(KEY, "HmacSHA256", None), b"") is SignatureVerdict.VALID


def test_the_checks_come_in_javas_order() -> None:
    headers = sign(KEY, "HmacSHA256", b"")
    assert verify(None, ACCEPTED, {}, b"") is SignatureVerdict.MISSING
    assert verify(None, ACCEPTED, {SIGNATURE_HEADER: "x"}, b"") is SignatureVerdict.MISSING
    assert verify(None, ("HmacSHA512",), headers, b"") is SignatureVerdict.ALGORITHM_REFUSED
    assert verify(None, ACCEPTED, headers, b"") is SignatureVerdict.KEY_UNKNOWN


def test_a_signature_that_is_not_base64_is_a_bad_request() -> None:
    headers = {SIGNATURE_HEADER: "***", ALGORITHM_HEADER: "HmacSHA256"}
    with pytest.raises(BadRequestError):
        verify(KEY, ACCEPTED, headers, b"")


def test_an_unknown_algorithm_is_a_bad_request() -> None:
    with pytest.raises(BadRequestError):
        sign(KEY, "Rot13", b"")
