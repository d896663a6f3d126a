"""The whole test run: which steps, side by side where that is safe, one more try for real processes, and its table."""
