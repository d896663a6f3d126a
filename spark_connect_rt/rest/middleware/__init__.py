"""What stands around the application: limits of bodies, CORS, headers of answers.

Owns headers and sizes. Must not know a resource or the herder.
"""
