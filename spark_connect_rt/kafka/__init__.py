"""The only door to Kafka clients.

Owns how clients are configured and connected (here), the group (``membership``), the bytes of record batches
(``records``, pure), fetches (``reading``), sends and transactions (``writing``), topics as logs (``logs``). Everything
else sees ports. Must not decide: settings are ``config``'s, trust is ``security``'s, plans are ``planning``'s.
"""
