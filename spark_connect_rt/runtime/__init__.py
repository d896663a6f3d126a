"""The worker's brain (herder) and hands (worker)."""
