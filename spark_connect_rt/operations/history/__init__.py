"""Changes of configurations and offsets: recorded with who asked, shown, rolled back."""
