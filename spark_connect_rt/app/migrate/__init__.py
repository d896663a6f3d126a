"""``connectrt migrate check``: shows how a Java worker's file, plug-ins and topics would work here; read only."""
