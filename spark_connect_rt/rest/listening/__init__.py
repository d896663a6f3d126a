"""Between a listener's sockets and the application: limits, time limits, and whose turn it is."""
