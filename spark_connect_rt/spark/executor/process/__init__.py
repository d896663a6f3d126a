"""What the tasks of one slot's process have in common: its memory, its looks at what has nothing new."""
