"""Calls of one object from several threads at once, in a process of their own: a crash there is a failed test here.

``calls.py`` has the tables of calls, ``hammer.py`` is the process. ``./test.sh stress`` runs each table for a minute,
the test of each run in ``tests/integration/kafka/test_client_stress.py`` for some seconds.
"""
