"""Requirements of a worker on its process and machine, checked before it starts anything or joins its group."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from spark_connect_rt.base.descriptor_limit import raise_descriptor_limit, rather_low, too_low
from spark_connect_rt.engine.startup.session_conf import connect_session_of
from spark_connect_rt.errors import EXIT_TOO_FEW_FILES, BadConfigError, StartupError

log = logging.getLogger(__name__)


def require_surroundings(settings: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
    """Check what a worker with these settings needs; its limit of open files is raised.

    Raises:
        BadConfigError: Spark is to be used through Spark Connect.
        StartupError: too few open files are allowed (exit code 27).
    """
    require_own_spark(settings, environment)
    require_descriptors()


def require_own_spark(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise BadConfigError if the session would be one of Spark Connect: jobs and executors cannot be reached by it."""
    found = connect_session_of(settings, environment)
    if found is None:
        return
    where, value = found
    raise BadConfigError(
        {
            where: [
                f"a worker cannot run on a Spark Connect session ({value!r}). It starts its own Spark: set "
                f"spark.master in the worker's file, and remove {where}. To read or write through Spark Connect, use "
                'spark.read.format("connectrt") in a session.'
            ]
        }
    )


def require_descriptors() -> None:
    """Raise this process's limit of open files as far as it goes, and warn where that is not far.

    Raises StartupError (exit code 27): a worker would join its group, take tasks, and end when Spark starts.
    """
    limit = raise_descriptor_limit()
    if why := too_low(limit):
        raise StartupError(why, exit_code=EXIT_TOO_FEW_FILES, code="CRT-1091")
    if warning := rather_low(limit):
        log.warning("%s", warning)
