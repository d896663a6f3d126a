"""Adds the headers of ``response.http.headers.config`` to every answer (Jetty's HeaderFilter)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Any

from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.config.response_headers import HeaderRule

RawHeaders = list[tuple[bytes, bytes]]


class ResponseHeaders:
    """ASGI: applies the rules around ``app``; what the application itself sets wins over ``set``."""

    def __init__(self, app: Asgi, rules: Sequence[HeaderRule], now_ms: Callable[[], int]) -> None:
        self._app = app
        self._rules = rules
        self._now_ms = now_ms

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._with_rules(list(message.get("headers", [])))}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _with_rules(self, own: RawHeaders) -> RawHeaders:
        added: RawHeaders = []
        for rule in self._rules:
            name = rule.name.lower().encode("latin-1")
            if rule.replaces:
                added = [pair for pair in added if pair[0] != name]
            added.append((name, self._value(rule).encode("latin-1", "replace")))
        # The filter works before the resource does: what a resource sets (its content type) replaces the filter's.
        mine = {name for name, _ in own}
        return [*(pair for pair in added if pair[0] not in mine), *own]

    def _value(self, rule: HeaderRule) -> str:
        if not rule.is_date:
            return rule.value
        return formatdate((self._now_ms() + int(rule.value)) / 1000, usegmt=True)
