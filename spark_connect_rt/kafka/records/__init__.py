"""Record batches of format v2 as columns and rows, and partitions of keys. Pure: bytes in, values out.

Owns the layout of batches, varints and murmur2 places. Must not open a connection, start a thread or read a clock:
a contract says so; of aiokafka only its record code is used.
"""
