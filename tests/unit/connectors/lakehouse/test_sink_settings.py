"""Settings of the Iceberg sink: each is honoured, or refused with a reason."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.connectors.lakehouse.catalog_settings import catalog_of, secrets_of
from spark_connect_rt.connectors.lakehouse.changes import ChangeForm
from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkConnector
from spark_connect_rt.connectors.lakehouse.iceberg_sink import CONFIG, IcebergSinkConnector
from spark_connect_rt.connectors.lakehouse.sink_settings import parse_partition_field, read_settings, split_fields
from spark_connect_rt.errors import BadConfigError

CATALOG = {
    "iceberg.catalog.type": "sql",
    "iceberg.catalog.uri": "sqlite:////lake/catalog.db",
    "iceberg.catalog.warehouse": "file:///lake",
}
PLAIN = {"name": "sink", "topics": "orders", "iceberg.tables": "shop.orders", **CATALOG}


def problems_of(config: dict[str, str]) -> dict[str, list[str]]:
    return {name: list(why) for name, why in IcebergSinkConnector().validate({**PLAIN, **config}).items()}


def test_small_configuration_is_valid_and_has_the_official_defaults() -> None:
    assert problems_of({}) == {}
    settings = read_settings(PLAIN)
    assert (settings.tables, settings.upsert, settings.form) == (("shop.orders",), False, None)
    assert settings.interval_ms == 300_000
    assert not settings.auto_create
    assert not settings.evolve
    assert settings.case_sensitive


def test_settings_of_a_table_override_the_defaults() -> None:
    settings = read_settings({
        **PLAIN,
        "iceberg.tables": "shop.orders, shop.items",
        "iceberg.tables.route-field": "kind",
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.default-partition-by": "day(ts), bucket(16, id)",
        "iceberg.tables.default-commit-branch": "staging",
        "iceberg.table.shop.orders.route-regex": "o.*",
        "iceberg.table.shop.items.route-regex": "i.*",
        "iceberg.table.shop.items.id-columns": "order, line",
        "iceberg.table.shop.items.partition-by": "region",
        "iceberg.table.shop.items.commit-branch": "audit",
    })  # fmt: skip
    orders, items = settings.of("shop.orders"), settings.of("shop.items")
    assert (orders.id_columns, orders.partition_by, orders.branch) == (
        ("id",),
        ("day(ts)", "bucket(16, id)"),
        "staging",
    )
    assert (items.id_columns, items.partition_by, items.branch) == (("order", "line"), ("region",), "audit")
    assert settings.of("shop.others") == settings.defaults


def test_cdc_field_turns_upserts_on() -> None:
    settings = read_settings({**PLAIN, "iceberg.tables.cdc-field": "_op"})
    assert (settings.upsert, settings.op_field) == (True, "_op")
    given = read_settings(
        {**PLAIN, "iceberg.tables.upsert-mode-enabled": "true", "connectrt.table.changes": "debezium"}
    )
    assert (given.upsert, given.form) == (True, ChangeForm.DEBEZIUM)


@pytest.mark.parametrize(
    ("changed", "setting", "reason"),
    [
        ({"iceberg.tables": ""}, "iceberg.tables", "must name a table"),
        ({"iceberg.tables": "orders"}, "iceberg.tables", "must be namespace.table"),
        ({"iceberg.tables": "a.b c"}, "iceberg.tables", "must be namespace.table"),
        ({"iceberg.tables": "a.b,a.b"}, "iceberg.tables", "names a table twice"),
        ({"iceberg.tables": "a.b,a.c"}, "iceberg.tables.route-field", "must be set for more than one table"),
        ({"iceberg.tables.dynamic-enabled": "true"}, "iceberg.tables", "must be empty"),
        (
            {"iceberg.tables": "", "iceberg.tables.dynamic-enabled": "true"},
            "iceberg.tables.route-field",
            "must be set with",
        ),
        ({"iceberg.tables.route-field": "kind"}, "iceberg.tables.route-field", "route-regex"),
        ({"iceberg.table.shop.orders.route-regex": "("}, "iceberg.table.shop.orders.route-regex", "regular expression"),
        ({"iceberg.table.shop.items.id-columns": "id"}, "iceberg.table.shop.items", "is not in iceberg.tables"),
        ({"iceberg.table.shop.orders.colour": "red"}, "iceberg.table.shop.orders.colour", "is not a setting"),
        ({"iceberg.tables.default-partition-by": "week(ts)"}, "iceberg.tables.default-partition-by", "partition field"),
        ({"iceberg.tables.write-props.write.format.default": "orc"}, "iceberg.tables.write-props.write.format.default",
         "is not supported"),
        ({"iceberg.tables.write-props.write.target-file-size-bytes": "big"},
         "iceberg.tables.write-props.write.target-file-size-bytes", "whole number"),
        ({"iceberg.catalog.type": "hadoop"}, "iceberg.catalog.type", "cannot refuse a commit that comes too late"),
        ({"iceberg.catalog.type": "nessie"}, "iceberg.catalog.type", "Use type rest"),
        ({"iceberg.catalog.type": "unity"}, "iceberg.catalog.type", "Use type rest"),
        ({"iceberg.catalog.type": "dynamodb"}, "iceberg.catalog.type", "cannot commit"),
        ({"iceberg.catalog.type": "magic"}, "iceberg.catalog.type", "is not supported"),
        ({"iceberg.catalog.catalog-impl": "com.example.Own"}, "iceberg.catalog.catalog-impl", "is not supported"),
        ({"iceberg.catalog.uri": ""}, "iceberg.catalog.uri", "must be set"),
        ({"iceberg.catalog.uri": "jdbc:mysql://h/d"}, "iceberg.catalog.uri", "only jdbc:postgresql"),
        ({"iceberg.catalog.warehouse": ""}, "iceberg.catalog.warehouse", "must be set"),
        ({"iceberg.hadoop-conf-dir": "/etc/hadoop"}, "iceberg.hadoop-conf-dir", "is not used"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_with_a_reason(changed: dict[str, str], setting: str, reason: str) -> None:
    found = problems_of(changed)
    assert reason in " ".join(found.get(setting, [])), found


def test_settings_without_an_effect_are_named_as_such() -> None:
    doubts = CONFIG.doubts({**PLAIN, "iceberg.control.topic": "control-iceberg"})
    assert "no control topic" in doubts["iceberg.control.topic"]


@pytest.mark.parametrize("connector", [IcebergSinkConnector(), DeltaSinkConnector()])
def test_more_than_four_tasks_that_upsert_are_doubtful(connector: SinkConnector) -> None:
    assert connector.doubts({**PLAIN, "tasks.max": "4"}) == {}
    assert connector.doubts({**PLAIN, "tasks.max": "many"}) == {}
    assert connector.doubts({**PLAIN, "tasks.max": "5"}) == {}  # they share commits
    for upserts in ({"iceberg.tables.upsert-mode-enabled": "true"}, {"iceberg.tables.cdc-field": "op"}):
        assert connector.doubts({**PLAIN, **upserts, "tasks.max": "4"}) == {}
        assert "at most 4 tasks" in connector.doubts({**PLAIN, **upserts, "tasks.max": "5"})["tasks.max"]
        assert not read_settings({**PLAIN, **upserts, "tasks.max": "5"}).shares_commits
    assert read_settings({**PLAIN, "tasks.max": "5"}).shares_commits
    assert not read_settings({**PLAIN, "tasks.max": "4"}).shares_commits


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"type": "rest", "uri": "http://h/", "token": "t"},
            {"type": "rest", "uri": "http://h/", "token": "t", "oauth2-server-uri": "http://h/v1/oauth/tokens"},
        ),
        (
            {"catalog-impl": "org.apache.iceberg.rest.RESTCatalog", "uri": "http://h"},
            {"type": "rest", "uri": "http://h"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h:5432/lake", "warehouse": "s3://lake", "jdbc.user": "a b",
             "jdbc.password": "p@ss", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "eu-west-1",
             "s3.path-style-access": "true"},
            {"type": "sql", "uri": "postgresql+psycopg://a%20b:p%40ss@h:5432/lake", "warehouse": "s3://lake",
             "s3.region": "eu-west-1"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:sqlite:/lake/c.db", "warehouse": "file:///lake"},
            {"type": "sql", "uri": "sqlite:////lake/c.db", "warehouse": "file:///lake"},
        ),
    ],
)  # fmt: skip
def test_names_of_java_catalogs_become_those_of_pyiceberg(given: dict[str, str], expected: dict[str, str]) -> None:
    name, properties = catalog_of({f"iceberg.catalog.{key}": value for key, value in given.items()})
    assert (name, properties) == ("iceberg", expected)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "glue", "warehouse": "s3://lake", "glue.region": "eu-west-1", "glue.id": "123", "s3.region": "eu"},
        {"type": "hive", "uri": "thrift://h:9083", "warehouse": "s3://lake", "hive.hive2-compatible": "true"},
        {"type": "rest", "uri": "https://h/api/2.1/unity-catalog/iceberg-rest", "warehouse": "main", "token": "t",
         "oauth2-server-uri": "https://h/oidc/v1/token"},
        {"type": "rest", "uri": "https://h", "credential": "a:b", "oauth2-server-uri": "https://i/t", "scope": "s",
         "rest.sigv4-enabled": "true"},
        {"type": "sql", "uri": "postgresql+psycopg://u:p@h/d", "warehouse": "gs://lake"},
    ],
)  # fmt: skip
def test_properties_of_catalogs_are_passed_on_as_they_are(given: dict[str, str]) -> None:
    assert catalog_of({f"iceberg.catalog.{key}": value for key, value in given.items()})[1] == given


def test_secrets_are_found_by_name_and_in_urls() -> None:
    given = {
        "credential": "client:s3cret",
        "token": "bearer",
        "s3.secret-access-key": "key",
        "s3.access-key-id": "id",
        "AWS_SECRET_ACCESS_KEY": "aws",
        "account_key": "azure",
        "uri": "postgresql+psycopg://user:p%40ss@h/d",
        "warehouse": "s3://lake",
        "other": "jdbc:postgresql://h/d?user=u&password=query",
        "broken": "http://[::1",
    }
    assert set(secrets_of(given)) == {
        "client:s3cret",
        "s3cret",
        "bearer",
        "key",
        "aws",
        "azure",
        "p%40ss",
        "p@ss",
        "query",
    }


def test_decimals_of_any_scale_have_the_type_of_the_settings() -> None:
    assert read_settings(PLAIN).variable_decimal is None
    assert read_settings({**PLAIN, "connectrt.table.variable.decimal": "38, 9"}).variable_decimal == (38, 9)
    for wrong in ("9", "9,10", "39,2", "0,0", "a,b", "9,-1"):
        with pytest.raises(BadConfigError, match="digits and scale"):
            read_settings({**PLAIN, "connectrt.table.variable.decimal": wrong})


def test_catalog_name_is_kept() -> None:
    assert catalog_of({**CATALOG, "iceberg.catalog": "lake"})[0] == "lake"
    with pytest.raises(BadConfigError, match=r"iceberg\.catalog\.type"):
        catalog_of({})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("region", ("region", "identity", "region")),
        ("day(ts)", ("ts", "day", "ts_day")),
        ("hours(a.ts)", ("a.ts", "hour", "a.ts_hour")),
        ("bucket(16, id)", ("id", "bucket[16]", "id_bucket")),
        ("bucket(id, 16)", ("id", "bucket[16]", "id_bucket")),
        ("truncate(4, name)", ("name", "truncate[4]", "name_trunc")),
    ],
)
def test_partition_fields(text: str, field: tuple[str, str, str]) -> None:
    assert parse_partition_field(text) == field


@pytest.mark.parametrize("text", ["", "day()", "day(a, b)", "bucket(id)", "bucket(0, id)", "truncate(x, y)", "day(ts"])
def test_other_partition_fields_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a partition field"):
        parse_partition_field(text)


def test_fields_are_split_outside_of_parentheses() -> None:
    assert split_fields(" a, bucket(4, b) ,,c") == ("a", "bucket(4, b)", "c")
