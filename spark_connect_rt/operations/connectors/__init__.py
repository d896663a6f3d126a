"""``connectrt describe``: one thing on one screen. Owns what the screens show, and what they advise."""
