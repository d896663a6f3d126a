"""The pages of the console, one module each, with its routes."""
