"""Unit tests of the execution engine, without Spark."""
