"""Java plug-ins, unmodified, in their own JVM next to a slot's Python process or next to the worker.

Owns: the JVM's life, the frames that cross its Unix socket, and the Python tasks and connectors that stand for the
Java ones. Must not: touch a record (they cross as columns), decide about tasks, speak to Kafka. The other side of
the socket is ``java/`` in the repository; ``wire.py`` and ``Wire.java`` say the same.
"""
