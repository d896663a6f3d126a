"""Implements ``connectrt new`` and ``connectrt dev``: a connector's project, run from its source files.

Owns the templates of a new project, finding and importing a project's classes, watching its files, running a connector
in the harnesses of ``testing`` and showing what it does. Must not need a worker or Spark, nor a broker unless it is
given one.
"""
