"""A Java ``sasl.jaas.config`` as librdkafka's settings.

Owns: the JAAS line's syntax and which login modules we know. Pure. Messages never show an option's value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_connect_rt.errors import BadConfigError

SETTING = "sasl.jaas.config"

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s=;"']+)|([=;]))""")
_SHELL_SAFE = re.compile(r"[\w@./:+-]+")  # librdkafka puts these into a shell command (kinit)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return (login module's simple name, its options) of one JAAS entry.

    Raises BadConfigError: not of the form ``Module flag key="value" ...;``.
    """
    words, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadConfigError({SETTING: ["unbalanced quotes"]})
        position = match.end()
        double, single, bare, mark = match.groups()
        quoted = double if double is not None else single
        words.append(mark or (bare if quoted is None else "=" + re.sub(r"\\(.)", r"\1", quoted)))
    if len(words) < 3 or words[-1] != ";":
        raise BadConfigError({SETTING: ['must be: LoginModuleClass required name="value" ...;']})
    options: dict[str, str] = {}
    rest = words[2:-1]
    if len(rest) % 3:
        raise BadConfigError({SETTING: ['options must be name="value", separated by spaces']})
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=":
            raise BadConfigError({SETTING: ['options must be name="value", separated by spaces']})
        options[name] = value.removeprefix("=")
    return words[0].rpartition(".")[2], options


def sasl_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for the client's ``sasl.*`` properties.

    Raises BadConfigError: a mechanism or login module that librdkafka does not have.
    """
    settings: dict[str, str] = {}
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism == "AWS_MSK_IAM":
        raise BadConfigError({"sasl.mechanism": ["AWS_MSK_IAM is not available; use SCRAM-SHA-512"]})
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    if text := properties.get(SETTING):
        module, options = parse_jaas(text)
        settings.update(_login(module, options))
    for name in ("sasl.kerberos.service.name", "sasl.kerberos.min.time.before.relogin"):
        if name in properties:
            settings[name] = properties[name]
    _refuse_shell_marks(settings)
    return settings


def _login(module: str, options: Mapping[str, str]) -> dict[str, str]:
    if module in ("PlainLoginModule", "ScramLoginModule"):
        return _pick(options, {"username": "sasl.username", "password": "sasl.password"})
    if module == "OAuthBearerLoginModule":
        return {}  # ``oauth_config``'s
    if module == "Krb5LoginModule":
        names = {
            "principal": "sasl.kerberos.principal",
            "keyTab": "sasl.kerberos.keytab",
            "serviceName": "sasl.kerberos.service.name",
        }
        return _pick(options, names)
    raise BadConfigError({SETTING: [f"login module {module} is not known"]})


def _pick(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {native: options[java] for java, native in names.items() if java in options}


def _refuse_shell_marks(settings: Mapping[str, str]) -> None:
    for name in ("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name"):
        if name in settings and not _SHELL_SAFE.fullmatch(settings[name]):
            raise BadConfigError({SETTING: [f"{name} holds characters that are not allowed"]})
