"""Installs plug-ins while workers run: a Maven coordinate, an archive, a Python distribution becomes a folder.

Owns: what is fetched and from where, checksums, what is left out, unpacking, the folder ``name-version`` that
appears whole or not at all, the group's record of what is installed. Must not: load a plug-in, know the herder.
"""
