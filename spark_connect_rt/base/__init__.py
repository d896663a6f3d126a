"""Small parts that every layer uses: ids, JSON text, threads and clocks, caches, loggers, TLS and tokens.

Must not know Connect's topics, settings or plug-ins, nor any package above it.
"""
