"""httpx's ways of failing, put into ours."""

from __future__ import annotations

from spark_connect_rt.rest.client.exchange import Broken, Failure
from spark_connect_rt.rest.client.lean_httpx import httpx


def failure_of(error: Exception, limit_s: float) -> Failure:
    """Return what a request's exception means: whether anything was sent, and why no answer came."""
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return Failure(Broken.NO_CONNECTION, "no connection within the timeout")
    if isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.ProxyError)):
        return Failure(Broken.NO_CONNECTION, str(error) or type(error).__name__)
    if isinstance(error, httpx.TimeoutException):
        return Failure(Broken.TIMED_OUT, f"no answer within {limit_s:.0f} s")
    return Failure(Broken.CUT_OFF, str(error) or type(error).__name__)
