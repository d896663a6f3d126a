"""Connectors of other Python projects as sources, and source connectors as resources of dlt.

Owns how these projects' pages, states and deletions become records; the projects themselves are extras of the
package.
"""
