"""The worker group: its subprotocol, membership, assignors, rebalance plans and requests between workers.

Everything here but the member's inbox is pure: facts in, decisions out. Kafka's side is ``kafka.membership``.
"""
