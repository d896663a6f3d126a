"""Sources that are programs of their own, in another environment of Python or another language: Singer, Airbyte.

Owns the child process, its environment, its secrets, and what its lines become. Must not know Kafka, Spark or the
worker; imports no library of these programs: theirs live in environments of their own.
"""
