"""Client security: Java's ``ssl.*``, ``sasl.*`` and token settings, read once for every client.

Owns the meaning of these names, store files (PEM, PKCS12, JKS), TLS contexts, JAAS lines, OAUTHBEARER tokens. Must not
import a Kafka client or know which client connects: Kafka's clients, the schema registry, HTTP connectors and REST
enter here.
"""
