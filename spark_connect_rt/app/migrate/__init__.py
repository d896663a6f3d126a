"""``connectrt migrate check``: what a Java worker's file, plug-ins and topics become here; read only."""
