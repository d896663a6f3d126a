"""Dead letters of a group: pages of them, replays of them, and the record of what was replayed."""
