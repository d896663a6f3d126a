"""What a server answers instead of a plug-in is a refusal that names it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from spark_connect_rt.operations.plugin_install import downloads
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError, fetch

URL = "http://plugins.example.com/one-1.0.zip"


@pytest.mark.parametrize(
    ("status", "headers", "why"),
    [
        (302, {}, "HTTP 302 without a Location"),
        (304, {}, "HTTP 304"),
        (302, {"location": URL}, "more than 5 redirects"),
        (302, {"location": "gopher://there"}, "UnsupportedProtocol"),
        (404, {"location": URL}, "HTTP 404"),
        (200, {"content-length": "11"}, "is larger than 10 bytes"),
    ],
)
def test_an_answer_that_is_not_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], why: str
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol("no such scheme")
        return httpx.Response(status, headers=headers, content=b"x" * 11 if status == 200 else b"")

    client = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr("httpx.Client", lambda **_: client)
    with pytest.raises(downloads.BadRequestError, match=why) as refused:
        fetch(URL, tmp_path / "one.zip", 10, lambda url: None)
    assert isinstance(refused.value, NotFetchedError) or status == 200
