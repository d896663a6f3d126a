"""The bundled plug-ins, under the name by which ``app`` and its tests import them."""

from spark_connect_rt.plugins.bundled_plugins import BUNDLED, bundled_plugins

__all__ = ["BUNDLED", "bundled_plugins"]
