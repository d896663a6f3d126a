"""The web console in a real Chromium, on real workers with a real broker.

How to write one: a test takes ``tab`` (a page of a browser over the two workers of ``group``) or ``quick`` (one over
the stand-in of the management API, for what needs no worker: layout, keyboard, hostile text).
``page = tab.open("/connectors/x")`` is playwright's page. A test fails on any error in the browser's console, unless it
says ``tab.expects("409")``; ``tab.accessible()`` asks axe-core.
"""
