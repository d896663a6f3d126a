"""The settings of workers, distributed and standalone: one file for each group of them, and the typed settings.

Owns names, defaults and what must hold between them. Must not know connectors' settings, which stand on these.
"""
