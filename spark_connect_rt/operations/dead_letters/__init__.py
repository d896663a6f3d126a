"""Dead letters: browsed, edited, replayed, deleted; and the ledger of what was replayed."""
