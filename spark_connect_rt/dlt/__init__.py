"""Source connectors written here as resources of dlt: ``from spark_connect_rt.dlt import resource``.

Needs the extra ``dlt``; no Kafka, no Spark. Offsets are kept in dlt's state of the resource.
"""

from spark_connect_rt.dlt.connector_resource import resource

__all__ = ["resource"]
