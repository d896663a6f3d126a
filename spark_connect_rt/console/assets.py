"""Files that pages load: read once from the package (a wheel that is not unpacked, too), named with their digest.

Owns: which files there are, their types, how long a browser keeps them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_KEPT = "public, max-age=31536000, immutable"  # the digest in its address changes with the file


@cache
def files() -> dict[str, tuple[bytes, str]]:
    """Return name -> content and digest of everything below ``static``."""
    found: dict[str, tuple[bytes, str]] = {}
    folder = resources.files("spark_connect_rt.console") / "static"
    for prefix, place in (("", folder), ("vendor/", folder / "vendor")):
        for path in place.iterdir():
            if path.is_file():
                content = path.read_bytes()
                found[prefix + path.name] = (content, hashlib.sha256(content).hexdigest()[:12])
    return found


def address(name: str) -> str:
    """Return where a page finds a file, below ``/console``. Raises KeyError for one that is not there."""
    return f"/static/{name}?v={files()[name][1]}"


async def serve(request: Request) -> Response:
    """Answer ``/console/static/{name:path}``."""
    name = request.path_params["name"]
    if name not in files():
        raise HTTPException(404)
    content, digest = files()[name]
    named = request.query_params.get("v") == digest
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(content, media_type=kind, headers={"Cache-Control": _KEPT if named else "no-cache"})
