"""Start of Spark's JVM and of the Python processes forked for it.

Owns the command and settings of the JVM, its class archives, which Python it starts, and the process that has imported
everything already. The modules here run before Spark does, so they must import little.
"""
