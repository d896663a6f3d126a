"""Runs tasks. The only package that imports Spark: driver side, executor side, the Java host, ``format("connectrt")``.

Owns the contract of a task runner (``task_runner``). The worker calls it; tasks report back over the control
channel.
"""
