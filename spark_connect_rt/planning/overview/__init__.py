"""What the overview of a group says of its connectors: what is abnormal, in which order, with which course."""
