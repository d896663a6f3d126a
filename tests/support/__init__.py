"""Helpers of tests and benchmarks: workers, Java's workers, PostgreSQL, a registry. Not for users' own tests."""
