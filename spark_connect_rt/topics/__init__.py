"""The internal topics: records of configs, offsets and statuses as bytes and values, and the stores that fold them.

Owns the contract of a compacted log. Its implementation on Kafka is ``kafka.logs``, which this package must not
import.
"""
