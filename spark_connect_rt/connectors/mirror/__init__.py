"""MirrorMaker's three connectors (Java ``MirrorSourceConnector``, ``MirrorCheckpointConnector``,
``MirrorHeartbeatConnector``).

Owns their rounds and tasks; the rules of replication are ``spark_connect_rt.mirror``'s, and pure. They talk to
Kafka by the clients of ``spark_connect_rt.kafka``, and to nothing else of the worker.
"""
