"""What pages show, as values: pure functions of what the REST API answers, be it less or more than is known."""
