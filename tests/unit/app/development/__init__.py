"""Tests of ``app/development``."""
