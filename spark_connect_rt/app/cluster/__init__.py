"""What ``connectrt get``, ``apply``, ``pause`` ... do: a cluster seen and steered over its public REST API.

Owns tables, differences, the file of contexts. Speaks through ``client`` only, so Java workers are served with all
they have. Imports nothing of a worker: it must start in a moment.
"""
