"""Real Java connectors on real systems, in full: ``./test.sh java``. Their short form is in tests/integration/java."""
