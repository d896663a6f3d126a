"""What plug-in code raises under a request is that request's failure: SystemExit must not end the listener's thread."""

from __future__ import annotations

import asyncio
from typing import Any

from spark_connect_rt.errors import as_error
from spark_connect_rt.rest.paths import AsgiApp, Scope


class PluginExits:
    """Turns what is no error, SystemExit of a plug-in first of all, into one; the application answers it 500."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as raised:
            raise as_error(raised) from raised
