"""What developers run in a checkout, no part of the package: pages and pictures of the documentation."""
