"""Start of Spark's JVM and of the Python processes forked for it.

Owns the command and settings of the JVM, its class archives, which Python it starts, and the process that has
imported everything already. What is imported here runs before Spark does, so it must stay light.
"""
