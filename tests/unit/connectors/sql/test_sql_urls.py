"""JDBC URLs are read as their drivers read them, and the JDBC connectors' names are known."""

from __future__ import annotations

import pytest

from spark_connect_rt.connectors.sql.sql_settings import adbc_uri, sqlalchemy_url
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("jdbc:postgresql://db:5433/shop?user=u&password=p", "postgresql+psycopg://u:p@db:5433/shop"),
        ("jdbc:postgresql://db/shop", "postgresql+psycopg://db/shop"),
        ("jdbc:postgresql://[::1]:5432/shop", "postgresql+psycopg://[::1]:5432/shop"),
        ("jdbc:postgresql:shop", "postgresql+psycopg://localhost/shop"),
        ("jdbc:postgresql://db/shop?ssl=true", "postgresql+psycopg://db/shop?sslmode=verify-full"),
        ("jdbc:postgresql://db/shop?ssl=true&sslmode=require", "postgresql+psycopg://db/shop?sslmode=require"),
        ("jdbc:postgresql://db/shop?reWriteBatchedInserts=true", "postgresql+psycopg://db/shop"),
        (
            "jdbc:postgresql://a:1,b:2/shop?targetServerType=primary",
            "postgresql+psycopg:///shop?host=a%3A1&host=b%3A2&target_session_attrs=primary",
        ),
        (
            "jdbc:postgresql://db/shop?currentSchema=sales&ApplicationName=x",
            "postgresql+psycopg://db/shop?application_name=x&options=-csearch_path%3Dsales",
        ),
        ("jdbc:sqlite:/data/shop.db", "sqlite:////data/shop.db"),
        ("postgresql://db/shop", "postgresql+psycopg://db/shop"),
        ("mysql+pymysql://db/shop", "mysql+pymysql://db/shop"),
    ],
)
def test_a_url_becomes_sqlalchemys(given: str, wanted: str) -> None:
    assert sqlalchemy_url(given).render_as_string(hide_password=False) == wanted


def test_the_settings_for_user_and_password_win() -> None:
    url = sqlalchemy_url("jdbc:postgresql://db/shop?user=u&password=p", "other", "se/cret")
    assert (url.username, url.password) == ("other", "se/cret")
    assert adbc_uri(url) == "postgresql://other:se%2Fcret@db/shop"


@pytest.mark.parametrize("wrong", ["jdbc:mysql://db/x", "no url", "jdbc:sqlite::memory:", "sqlite://", "jdbc:sqlite:"])
def test_unreadable_url_is_refused_naming_the_setting(wrong: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        sqlalchemy_url(wrong)
    assert set(refused.value.problems) == {"connection.url"}


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(BadConfigError) as refused:
        sqlalchemy_url("jdbc:mysql://u:secret@db/x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", ["Source", "Sink"])
def test_a_jdbc_connectors_name_finds_the_sql_one(kind: str) -> None:
    names = ("io.confluent.connect.jdbc.Jdbc{}Connector", "io.aiven.connect.jdbc.Jdbc{}Connector", "Jdbc{}", "Sql{}")
    found = {bundled_plugins().find(name.format(kind)).target for name in names}
    assert found == {f"spark_connect_rt.connectors.sql.sql_{kind.lower()}:Sql{kind}Connector"}
