"""The sink side of a lane: rows taken from the feed, put into the task, offsets reported when they are safe.

Owns the order of put, flush and report. Must not fetch records or talk to the driver but by the lane.
"""
