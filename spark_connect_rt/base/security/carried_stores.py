"""Trust and key stores for clients on other machines: their bytes travel with the client's properties.

Executors need not have the files that a worker's or connector's properties name. A store travels as it is, still sealed
by its password; a password given as ``${provider:...}`` is resolved where the store is opened, never here.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from pathlib import Path

TRUSTSTORE, KEYSTORE = "ssl.truststore", "ssl.keystore"
CONTENT = "connectrt.{store}.content"
"""The property that holds a store's bytes in base64; ``tls_stores`` prefers it to the file."""


def carry_stores(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with the content of each store file that they name and that is readable here.

    What is not readable here may be there (the path may hold a reference, or the executors' images the file); the
    client that opens it reports the problem.
    """
    carried = dict(properties)
    for store in (TRUSTSTORE, KEYSTORE):
        if location := properties.get(f"{store}.location"):
            with contextlib.suppress(OSError):
                carried[CONTENT.format(store=store)] = base64.b64encode(Path(location).read_bytes()).decode("ascii")
    return carried
