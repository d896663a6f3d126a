"""The executor's Python daemon (``spark.python.daemon.module``): forks workers that have everything imported.

Measured: a worker has 9 to 15 MB for itself instead of 83, no second of imports at each fork, and Spark's gc.collect()
after every task costs nothing, because what is imported here is frozen. Memory that one of a slot's many threads gave
back serves the others: 20 tasks cost their slot 10 MB instead of 120 (./bench.sh memory).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys

from spark_connect_rt.base.descriptor_limit import raise_descriptor_limit
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.engine.executor.closed_pipes import end_quietly

_WANTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyarrow",
    "confluent_kafka",
    "spark_connect_rt.engine.executor.datasource",
    "spark_connect_rt.engine.executor.slice_halves",
    # Any task needs these next. Without them, its first record waits 0.2 CPU s, and each slot needs 16 MiB more.
    "spark_connect_rt.engine.executor_clients",
    "spark_connect_rt.engine.process_plugins",
    "spark_connect_rt.records.converters.primitive_converters",
    "spark_connect_rt.kafka.reading.consumers",
    "spark_connect_rt.kafka.reading.fetch_consumer",
    "spark_connect_rt.kafka.writing.column_producer",
    "spark_connect_rt.kafka.writing.producers",
    "spark_connect_rt.kafka.writing.shared_clients",
    "spark_connect_rt.plugins.isolation",
)


# Spark's planners, each a module for which Spark would start a daemon: where all are forks of one process.
_PLANNERS = (
    "pyspark_connectrt",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.commit_data_source_write",
)


def import_wanted(names: tuple[str, ...] = _WANTED) -> list[str]:
    """Import what workers need; return what is not there. Not pandas: slices never use it."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def collect_rarely() -> None:
    """Have garbage looked for after 50,000 new containers, not 700: a batch of records has as many, none of it garbage.

    Reading structs from JSON costs a third less so (``./bench.sh convert``).
    """
    gc.set_threshold(50_000, 20, 100)


_M_ARENA_MAX = -8  # of malloc.h
HEAPS = 2


def share_memory() -> None:
    """Have all threads allocate from two heaps, Arrow's buffers included. Before the first import of pyarrow.

    By default glibc has up to eight heaps for each core, and Arrow's allocator one for each thread: both keep what was
    freed for the thread that had it.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, HEAPS)


def prepare(more: tuple[str, ...] = ()) -> None:
    """Import and freeze, to be forked from."""
    raise_descriptor_limit()  # each fork hosts many tasks, each with its clients and files
    share_memory()
    collect_rarely()
    load_pandas_on_demand()
    import_wanted((*_WANTED, *more))
    gc.collect()
    gc.freeze()


def prepare_zygote() -> None:
    """Prepare for slots and for the processes that plan them."""
    prepare(_PLANNERS)
    sys.modules.pop("pyspark.daemon", None)  # it reads which program to run when it is imported


def manager() -> None:
    """Be Spark's daemon; returns when it has ended. Raises SystemExit."""
    daemon = importlib.import_module("pyspark.daemon")
    end_quietly(daemon)
    daemon.manager()


def main() -> None:
    """Prepare, then be Spark's daemon."""
    prepare()
    manager()


if __name__ == "__main__":
    main()
