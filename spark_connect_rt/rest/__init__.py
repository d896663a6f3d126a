"""The REST frame: requests to herder calls and answers, one router per resource of Kafka Connect.

Features of ``operations`` bring their own routes; ``app.rest`` puts all together.
"""
