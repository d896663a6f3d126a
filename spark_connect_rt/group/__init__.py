"""The algorithms the leader runs to divide connectors and tasks. Pure; memory is passed in and returned."""
