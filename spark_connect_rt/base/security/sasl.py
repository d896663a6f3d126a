"""A Java ``sasl.jaas.config`` as librdkafka's settings.

Owns: the JAAS line's syntax and which login modules we know. Pure. Messages never show an option's value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spark_connect_rt.base.security.jaas import FLAGS, JaasToken, stream_tokens
from spark_connect_rt.errors import BadConfigError

SETTING = "sasl.jaas.config"

_OPTIONS = ("username", "password", "principal", "keyTab", "serviceName", "useKeyTab", "storeKey", "tokenauth")
_SHELL_SAFE = re.compile(r"[\w@./:+-]+")  # librdkafka puts these into a shell command (kinit)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return (login module's simple name, its options) of one JAAS entry, as Java's ``JaasConfig`` reads it.

    Raises BadConfigError: not of the form ``Module flag key="value" ...;``; the message names the option.
    """
    tokens = list(stream_tokens(text))
    if not tokens or not tokens[0].text:
        raise _refused("the login module is missing")
    flag = tokens[1].text if len(tokens) > 1 else None
    if flag is None or flag.lower() not in FLAGS:
        raise _refused(f"the login module must be followed by one of {', '.join(FLAGS)}")
    options, rest = _options(tokens[2:])
    if rest:
        raise _refused("more than one login module is named")
    return tokens[0].text.rpartition(".")[2], options


def _options(tokens: Sequence[JaasToken]) -> tuple[dict[str, str], Sequence[JaasToken]]:
    """Return the options of a module, and the text after its semicolon."""
    options: dict[str, str] = {}
    last, at = "", 0
    while at < len(tokens) and tokens[at].shown != ";":
        name, equals, value = (*(token for token in tokens[at : at + 3]), None, None)[:3]
        if name is None or name.text is None or equals is None or equals.shown != "=":
            raise _unquoted(last or (name.text if name else None) or "name")
        if value is None or value.text is None:
            raise _unquoted(name.text if name.text in _OPTIONS else last or name.text)
        options[name.text] = value.text
        last, at = name.text, at + 3
    if at == len(tokens):
        raise _refused(f"the semicolon at its end is missing, or a quote of option {last or 'name'} is not closed")
    return options, tokens[at + 1 :]


def _unquoted(option: str) -> BadConfigError:
    """Return the error for an option. It does not show the value, which may be part of a password."""
    return _refused(f'option {option} has an invalid value. Put the value in quotes: {option}="..."')


def _refused(why: str) -> BadConfigError:
    return BadConfigError({SETTING: [f'{why}. It must be: LoginModuleClass required name="value" ...;']})


def sasl_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for the client's ``sasl.*`` properties.

    Raises BadConfigError: a mechanism or login module that librdkafka does not have.
    """
    settings: dict[str, str] = {}
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism == "AWS_MSK_IAM":
        raise BadConfigError({"sasl.mechanism": ["AWS_MSK_IAM is not supported. Use SCRAM-SHA-512"]})
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
    raise BadConfigError({SETTING: [f"unknown login module {module}"]})


def _pick(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {native: options[java] for java, native in names.items() if java in options}


def _refuse_shell_marks(settings: Mapping[str, str]) -> None:
    for name in ("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name"):
        if name in settings and not _SHELL_SAFE.fullmatch(settings[name]):
            raise BadConfigError({SETTING: [f"{name} contains characters that are not allowed"]})
