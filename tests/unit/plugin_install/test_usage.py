"""Which connectors use a folder of plug-ins."""

from __future__ import annotations

from spark_connect_rt.plugin_install.usage import named_plugins, users_of


def test_every_setting_that_names_a_plugin_counts() -> None:
    config = {
        "connector.class": "A",
        "connector.plugin.version": "[1,2)",
        "value.converter": "B",
        "transforms": "x, y",
        "transforms.x.type": "C",
        "transforms.x.plugin.version": "3",
        "transforms.z.type": "not in the chain",
        "predicates": "p",
        "predicates.p.type": "D",
        "config.providers": "q",
        "config.providers.q.class": "E",
    }
    assert list(named_plugins(config)) == [("A", "[1,2)"), ("B", ""), ("C", "3"), ("D", ""), ("E", "")]


def test_only_what_lies_in_the_folder_is_used() -> None:
    places = {"A@": "/p/one-1.0", "A@2": "/p/one-2.0/lib/a.jar", "B@": "bundled"}
    configs = {
        "uses-1": {"connector.class": "A"},
        "uses-2": {"connector.class": "A", "connector.plugin.version": "2"},
        "uses-none": {"connector.class": "B", "key.converter": "gone"},
    }

    def found(folder: str) -> list[str]:
        return users_of(folder, configs, lambda name, version: places.get(f"{name}@{version}"))

    assert found("/p/one-1.0") == ["uses-1"]
    assert found("/p/one-2.0") == ["uses-2"]
    assert found("/p/one") == []
