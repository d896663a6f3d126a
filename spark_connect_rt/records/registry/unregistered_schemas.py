"""A registry that nothing is registered in: for previews, which leave nothing behind.

Schemas that are there have their ids. Others get one of this object's, from the largest id downwards, which no registry
has given: bytes with them show what would be written, and are read by no one.
"""

from __future__ import annotations

from dataclasses import replace

from spark_connect_rt.records.registry.registry_client import RegistryClient, StoredSchema

LARGEST_ID = 2**31 - 1


class UnregisteredSchemas:
    """Implements Registry beside a client. One thread."""

    def __init__(self, client: RegistryClient) -> None:
        """Take the client that looks up."""
        self._client = client
        self._made: dict[tuple[str, StoredSchema], StoredSchema] = {}

    def id_for(self, subject: str, schema: StoredSchema) -> StoredSchema:
        """Return the schema with the registry's id, else with one that is made up."""
        found = self._made.get((subject, schema)) or self._client.look_up(subject, schema)
        if found is None:
            same = (stored_schema for (_, of), stored_schema in self._made.items() if of == schema)
            found = next(same, None) or replace(schema, id=LARGEST_ID - len(self._made))
            self._made[subject, schema] = found
        return found

    def latest(self, subject: str) -> StoredSchema:
        """See Registry: of what is registered."""
        return self._client.latest(subject)

    def by_id(self, number: int) -> StoredSchema:
        """Return a schema by its id, made up or not. Raises DataError: there is none."""
        made = next((stored_schema for stored_schema in self._made.values() if stored_schema.id == number), None)
        return made or self._client.by_id(number)

    def version_of(self, subject: str, schema: StoredSchema) -> int | None:
        """See Registry; a schema that is not there is taken for the first version."""
        found = self._client.version_of(subject, schema)
        return found if found is not None or not any(of == schema for _, of in self._made) else 1

    def referenced(self, schema: StoredSchema) -> dict[str, StoredSchema]:
        """See Registry."""
        return self._client.referenced(schema)
