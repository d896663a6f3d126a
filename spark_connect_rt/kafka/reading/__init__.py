"""Records read from partitions: fetches by columns, librdkafka's consumer where a setting asks for it.

Owns sessions with brokers, leader epochs, positions and look-ups of offsets. Must not commit offsets: the reader's
owner commits.
"""
