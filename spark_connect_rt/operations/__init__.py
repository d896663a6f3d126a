"""Features for operators beyond Kafka Connect: one folder each, with its routes, commands and pages.

A feature's model and service come first; ``routes``, ``commands`` and ``page`` plug it into the frames ``rest``,
``cli`` and ``console``. Services must not import these frames, but for reads between workers (``rest.peers``).
"""
