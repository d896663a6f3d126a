"""``connectrt quickstart --cdc``: a PostgreSQL table that a lakehouse table follows, side by side in the terminal."""
