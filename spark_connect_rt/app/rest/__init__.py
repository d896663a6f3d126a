"""What the API says of itself: ``/openapi.json`` and the page that shows it.

Owns operations, statuses and schemas as OpenAPI has them; the shapes come from the port's values. Must not answer
any other request.
"""
