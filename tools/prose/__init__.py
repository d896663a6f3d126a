"""The docs check: rules for everything that a person reads (``rules.toml``), and counts that may only fall."""
