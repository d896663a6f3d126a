"""HTTP to herder calls, one router per resource."""
