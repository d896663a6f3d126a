"""httpx without its own command line, which doubles what an import of it costs.

httpx imports ``httpx._main`` where rich and click are installed, and does without it where they are not. Every module
of this package takes httpx from here.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if _COMMAND_LINE not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # the import system's mark of a module that is absent
    try:
        import httpx
    finally:
        del sys.modules[_COMMAND_LINE]
else:
    import httpx

__all__ = ["httpx"]
