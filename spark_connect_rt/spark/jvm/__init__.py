"""Spark's JVM: by what command and settings it is started, what it maps, which Python it starts, that it lives."""
