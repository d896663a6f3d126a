"""A client of the REST API, of our workers and of Java's: the command line and the console use it.

A request is a value (``calls.py``, ``management_calls.py``). ``exchange.py`` decides which address is asked, what is
asked again, and what an answer means; ``sync_client.py`` and ``async_client.py`` move the bytes.
"""
