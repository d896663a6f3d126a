"""Taps and sources as their users get them: what pip installs, and the configuration of each for a service of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.integration.programs.rest_orders import TOKEN

TAP_POSTGRES = "pipelinewise-tap-postgres==1.8.4"
TAP_REST = "tap-rest-api-msdk==1.4.2"
PKG_RESOURCES = "setuptools<81"  # the tap imports it and does not name it
CDK = "airbyte-cdk==7.39.1"
FAKER = "airbyte-source-faker==7.2.1"

MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [orders]}
spec:
  type: Spec
  connection_specification:
    type: object
    properties: {url: {type: string}, token: {type: string, airbyte_secret: true}}
streams:
  - type: DeclarativeStream
    name: orders
    primary_key: [id]
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['url'] }}"
        path: /orders
        http_method: GET
        authenticator: {type: BearerAuthenticator, api_token: "{{ config['token'] }}"}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [items]}}
      paginator:
        type: DefaultPaginator
        page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
        pagination_strategy:
          type: CursorPagination
          cursor_value: "{{ response.get('next') }}"
          stop_condition: "{{ not response.get('next') }}"
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: updated_at
      datetime_format: "%Y-%m-%dT%H:%M:%SZ"
      start_datetime: "2026-01-01T00:00:00Z"
      end_datetime: "2026-01-02T00:00:00Z"
      step: PT10M
      cursor_granularity: PT1S
      start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
      end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: until}
    schema_loader:
      type: InlineSchemaLoader
      schema:
        type: object
        properties:
          id: {type: integer}
          name: {type: [string, "null"]}
          price: {type: [number, "null"]}
          updated_at: {type: string, format: date-time}
          tags: {type: array, items: {type: string}}
"""


@dataclass(frozen=True)
class RealProgram:
    """One of them: its kind, configuration and settings."""

    kind: str
    config: dict[str, Any]
    settings: dict[str, str] = field(default_factory=dict)


def tap_postgres(url: str, table: str = "orders") -> RealProgram:
    """Return the tap for a database by its URL, incremental by ``id``."""
    place = urlsplit(url)
    config = {"host": place.hostname, "port": place.port, "user": place.username, "dbname": place.path.strip("/")}
    settings = {
        "singer.requirement": TAP_POSTGRES,
        "singer.executable": "tap-postgres",
        "singer.secret.config": json.dumps({"password": "any one will do"}),
        "singer.replication.method": "INCREMENTAL",
        "singer.replication.keys": json.dumps({f"public-{table}": "id"}),
    }
    return RealProgram("singer", config, settings)


def tap_rest(url: str) -> RealProgram:
    """Return the tap for the service of orders."""
    stream = {
        "name": "orders",
        "path": "/orders",
        "records_path": "$.items[*]",
        "primary_keys": ["id"],
        "replication_key": "updated_at",
        "source_search_field": "since",
        "source_search_query": "$last_run_date",
        "start_date": "2026-01-01T00:00:00Z",
    }
    pages = {"pagination_request_style": "jsonpath_paginator", "next_page_token_path": "$.next"}
    config = {"api_url": url, "auth_method": "bearer_token", "streams": [stream], **pages}
    secret = json.dumps({"bearer_token": TOKEN})
    return RealProgram(
        "singer", config, {"singer.requirement": f"{TAP_REST} {PKG_RESOURCES}", "singer.secret.config": secret}
    )


def manifest(url: str) -> RealProgram:
    """Return the declarative manifest for the service of orders."""
    secret = json.dumps({"token": TOKEN})
    settings = {"airbyte.requirement": CDK, "airbyte.manifest": MANIFEST, "airbyte.secret.config": secret}
    return RealProgram("airbyte", {"url": url}, settings)


def faker(rows: int) -> RealProgram:
    """Return the source of invented people, products and purchases.

    Its state says from the first slice on that all was read; without ``always_updated`` what is cut off never comes.
    """
    config = {"count": rows, "seed": 7, "records_per_slice": 500, "always_updated": True, "parallelism": 1}
    return RealProgram("airbyte", config, {"airbyte.requirement": FAKER, "airbyte.streams": "users"})
