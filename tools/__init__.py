"""What developers run in a checkout; no part of the package."""
