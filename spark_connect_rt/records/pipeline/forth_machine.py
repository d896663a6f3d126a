"""AwkwardForth, a machine in C++ that parses formats which can only be read in order. The one import of this part."""

from __future__ import annotations

from awkward_cpp.lib._ext import ForthMachine64

__all__ = ["ForthMachine64"]
