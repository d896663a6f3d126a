"""Checks of connector configurations, and what plug-ins declare of theirs.

Owns which declarations a configuration is checked against, and the order of the findings. Runs plug-in code, so it must
not run on the tick thread; it changes nothing and knows nothing of the group.
"""
