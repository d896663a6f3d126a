"""A properties file keeps blanks behind a value; a setting does not."""

from spark_connect_rt.group.subprotocol import ConnectProtocol
from spark_connect_rt.runtime.herder.dependencies import HerderSettings
from spark_connect_rt.testing.worker_settings import worker_settings


def test_blanks_around_a_value_are_removed() -> None:
    raw = {
        "topic.tracking.enable": "false ",
        "topic.tracking.allow.reset": "\tFALSE",
        "inter.worker.key.generation.algorithm": "HmacSHA512 ",
        "inter.worker.signature.algorithm": " HmacSHA512",
        "inter.worker.verification.algorithms": "HmacSHA256, HmacSHA512 ",
        "connect.protocol": "eager ",
    }
    settings = HerderSettings.of("w:1", "http://w:1/", worker_settings(raw))
    assert (settings.topic_tracking, settings.topic_tracking_reset) == (False, False)
    assert (settings.key_algorithm, settings.signature_algorithm) == ("HmacSHA512", "HmacSHA512")
    assert settings.key_size_bytes == 64
    assert settings.protocol is ConnectProtocol.EAGER
