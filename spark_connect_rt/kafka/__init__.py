"""The only package that imports Kafka clients.

Owns how clients are configured and connected (here), the group (``membership``), the bytes of record batches
(``records``, pure), fetches (``reading``), sends and transactions (``writing``), topics as logs (``logs``).
Everything else uses their contracts. Must not decide: settings belong to ``config``, trust to ``base.security``,
plans to ``group`` and ``runtime``.
"""
