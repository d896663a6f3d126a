"""Requests from REST to the herder: the queue in front of the tick, and the handler of each request.

Owns who serves a request, in what order effects are written, and how its answer is made. Must not start or stop work
itself: it writes to the config topic or marks restarts, and the steps act on that.
"""
