"""What tests and benchmarks start and look at: workers, Java's, PostgreSQL, a registry; not for users' own tests."""
