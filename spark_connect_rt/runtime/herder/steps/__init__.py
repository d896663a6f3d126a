"""The steps of a tick, one module each, in the order that loop.py gives them.

Owns the decisions of one pass over the group's state, and acts through the ports of HerderDependencies. Must not wait
(what waits runs on another thread, see request_queue.py) and must not import requests: a step acts on state.
"""
