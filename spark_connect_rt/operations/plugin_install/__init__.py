"""Installs plug-ins while workers run: a Maven coordinate, an archive, a Python distribution becomes a folder.

Owns the sources, downloads and checksums, the files that are left out, unpacking, the folder ``name-version`` that
appears whole or not at all, and the group's record of installed plug-ins. Must not: load a plug-in, know the herder.
"""
