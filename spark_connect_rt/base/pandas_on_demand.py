"""Keeps libraries from importing pandas until it is needed. An import costs each process 2.3 CPU s and 25 MB.

pyarrow imports pandas as soon as it converts anything from or to Python, only to recognize pandas' objects. A program
that passes such an object has imported pandas already. So pyarrow first finds no pandas, and looks for it again after
the program has imported it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


def load_pandas_on_demand() -> None:
    """Install the import hook in this process and those forked from it; call it once."""
    if _PANDAS in sys.modules or importlib.util.find_spec(_PANDAS) is None:
        return
    import pyarrow as pa

    watch = _Watch()
    sys.meta_path.insert(0, watch)
    with watch.hiding():
        pa.array([])


def import_without_pandas(name: str) -> None:
    """Import a module that imports pandas only to see whether it is there; as any other where pandas is not on demand.

    Raises ImportError.
    """
    watch = next((finder for finder in sys.meta_path if isinstance(finder, _Watch)), None)
    with watch.hiding() if watch is not None else nullcontext():
        importlib.import_module(name)


class _Watch:
    """Hides pandas from one thread at a time.

    For all other imports it finds pandas, and notifies pyarrow of the import.

    A mere search for the module's spec does not import pandas, so the hook stays until a real import. Any thread.
    """

    _hidden_from: int | None = None

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """Hide pandas from this thread inside the block."""
        self._hidden_from = threading.get_ident()
        try:
            yield
        finally:
            self._hidden_from = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find pandas with the other finders, unless it is hidden from this thread (``importlib.abc.MetaPathFinder``).

        Raises ModuleNotFoundError: it is hidden from this thread.
        """
        if name != _PANDAS:
            return None
        if self._hidden_from == threading.get_ident():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = self._found_by_others(path, target)
        if spec is not None and spec.loader is not None:
            _tell_after(spec)
        return spec

    def _found_by_others(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        others = (
            finder for finder in tuple(sys.meta_path) if not isinstance(finder, _Watch) and hasattr(finder, "find_spec")
        )
        return next((spec for other in others if (spec := other.find_spec(_PANDAS, path, target)) is not None), None)


def _tell_after(spec: ModuleSpec) -> None:
    from pyarrow.lib import _pandas_api

    loader = spec.loader
    assert loader is not None
    run = loader.exec_module

    def run_and_tell(module: ModuleType) -> None:
        run(module)
        sys.meta_path = [finder for finder in sys.meta_path if not isinstance(finder, _Watch)]
        _ = _pandas_api.pd  # looks for pandas again

    loader.exec_module = run_and_tell  # type: ignore[method-assign]
