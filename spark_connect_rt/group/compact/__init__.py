"""The group record in compact form, for groups of more tasks than Kafka's own form has room for. Pure."""
