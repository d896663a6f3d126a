"""Another cluster's topics as a source and a sink, byte for byte.

Owns the settings of that other cluster, and the tasks. They talk to Kafka by the clients of
``spark_connect_rt.kafka``, and to nothing else of the worker.
"""
