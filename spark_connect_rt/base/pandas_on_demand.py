"""Keeps libraries from importing pandas until it is needed: 2.3 CPU s and 25 MB in every process.

pyarrow imports pandas as soon as it converts anything from or to Python, only to know pandas' objects when it sees one.
Who shows it one has imported pandas. So pyarrow is made to find no pandas, and to look again after an import of it.
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
    """Do so in this process and those forked from it; once."""
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
    """Hides pandas from one thread at times. Else finds it as all others would, and tells pyarrow when it is imported.

    Who only asks where pandas is has not imported it, so it watches until then. Any thread.
    """

    _hidden_from: int | None = None

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """Hide it from this thread meanwhile."""
        self._hidden_from = threading.get_ident()
        try:
            yield
        finally:
            self._hidden_from = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
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
