"""Dead letters, decided purely: what a record says, which are wanted, how they are shown, edited, marked, replayed."""
