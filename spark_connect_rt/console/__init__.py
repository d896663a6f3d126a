"""The web console, ``/console``: the frame of its pages, templates, protection.

Each worker renders pages over the REST API. Features of ``operations`` bring their own pages.
"""
