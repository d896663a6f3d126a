"""Connectors that make up or only count their records: Datagen, and the test connectors of Kafka's distribution.

Owns generated values and their pace. Nothing here reaches beyond the process.
"""
