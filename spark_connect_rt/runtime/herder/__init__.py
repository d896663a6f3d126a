"""The tick loop: membership, requests, leadership, forwarding. Drives runtime.worker, never the reverse."""
