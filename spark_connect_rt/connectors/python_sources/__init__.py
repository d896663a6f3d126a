"""Connectors of other Python projects as sources: one thin adapter for each of their interfaces.

Owns what these projects' pages, states and deletions become here; the projects themselves are extras of the package.
"""
