"""Which failures to connect no repetition mends, and the setting each one names."""

from __future__ import annotations

import ssl

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from spark_connect_rt.kafka.connection_problem import Refusal, refusal_of_error


def not_verified(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "in OpenSSL's words"
    return error


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (not_verified(10), "ssl.truststore.location"),  # expired
        (not_verified(9), "ssl.truststore.location"),  # not valid yet
        (not_verified(18), "ssl.truststore.location"),  # self-signed
        (not_verified(20), "ssl.truststore.location"),  # issuer unknown
        (not_verified(62), "ssl.endpoint.identification.algorithm"),  # host name
        (not_verified(64), "ssl.endpoint.identification.algorithm"),  # address
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "ssl.keystore.location"),
        (alert("SSLV3_ALERT_BAD_CERTIFICATE"), "ssl.keystore.location"),
        (alert("TLSV1_ALERT_UNKNOWN_CA"), "ssl.keystore.location"),
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "ssl.keystore.location"),
        (alert("WRONG_VERSION_NUMBER"), "security.protocol"),
        (alert("TLSV1_ALERT_PROTOCOL_VERSION"), "security.protocol"),
        (SaslAuthenticationFailed("invalid credentials"), "sasl.jaas.config"),
        (UnsupportedSaslMechanismError("enabled: PLAIN"), "sasl.mechanism"),
    ],
)
def test_a_final_failure_names_its_setting_however_deep_it_lies(error: Exception, setting: str) -> None:
    found = refusal_of_error(error)
    assert found is not None
    assert found.setting == setting
    wrapped = KafkaConnectionError("closed")
    wrapped.__cause__ = error
    assert refusal_of_error(wrapped) == found


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), TimeoutError(), alert("UNEXPECTED_EOF_WHILE_READING"), KafkaConnectionError()]
)
def test_transient_error_is_retried(error: Exception) -> None:
    assert refusal_of_error(error) is None


def test_the_brokers_words_are_kept_and_the_librarys_are_not() -> None:
    assert refusal_of_error(SaslAuthenticationFailed("no")) == Refusal("sasl.jaas.config", "no")
    assert refusal_of_error(SaslAuthenticationFailed()) == Refusal("sasl.jaas.config", "SaslAuthenticationFailed")
