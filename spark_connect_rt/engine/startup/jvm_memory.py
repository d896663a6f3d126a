"""Options by which every JVM of ours keeps less memory than HotSpot would by itself."""

from __future__ import annotations

# Mapped where its pointers already point to, an archive of classes (JEP 350) is read from its file. HotSpot places it
# anywhere by default and corrects each pointer: 140 MiB of Spark's archive become the process's own memory.
ARCHIVES_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
# What malloc keeps after a start is given back. Java 17.0.9 and newer have it.
FREED_GIVEN_BACK = ("-XX:TrimNativeHeapInterval=60000",)
