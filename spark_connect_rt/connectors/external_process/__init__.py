"""Sources that are separate programs, in another Python environment or another language: Singer, Airbyte.

Owns the child process, its environment, its secrets, and the records made of its lines. Must not know Kafka, Spark or
the worker. Imports no library of these programs: their libraries are in their own environments.
"""
