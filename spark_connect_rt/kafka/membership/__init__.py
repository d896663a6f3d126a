"""This worker as a member of its Connect group: requests to the coordinator, heartbeats, what arrives from it.

Owns the group's connections and their bytes (JoinGroup, SyncGroup, Heartbeat, LeaveGroup). Must not decide: the
state machine is ``group.membership``, pure; this folder sends what it orders and hands back what came.
"""
