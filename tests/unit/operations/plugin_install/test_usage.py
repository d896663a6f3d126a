"""Which connectors use a folder of plug-ins."""

from __future__ import annotations

from spark_connect_rt.operations.plugin_install.wiring import PluginLocation, stage_names, users_of


def test_every_setting_that_names_a_plugin_counts() -> None:
    config = {
        "connector.class": "A",
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
    assert list(stage_names(config)) == [("B", ""), ("C", "3"), ("D", ""), ("E", "")]


def test_only_what_lies_in_the_folder_is_used() -> None:
    places = {
        "A": PluginLocation("/p/one-1.0"),
        "A@2": PluginLocation("/p/one-2.0/lib/a.jar"),
        "B": PluginLocation("bundled"),
        "B%java": PluginLocation("/p/jars-1", is_java=True),
        "C": PluginLocation("bundled"),
        "C%java": PluginLocation("/p/chain-1", is_java=True),
    }
    configs = {
        "uses-1": {"connector.class": "A"},
        "uses-2": {"connector.class": "A", "connector.plugin.version": "2"},
        "in-python": {"connector.class": "B", "key.converter": "gone", "value.converter": "C"},
        "in-java": {"connector.class": "B", "connectrt.runtime": "java", "value.converter": "C"},
        "the worker": {"value.converter": "C"},
    }

    def found(folder: str) -> list[str]:
        return users_of(folder, configs, places.get)

    assert found("/p/one-1.0") == ["uses-1"]
    assert found("/p/one-2.0") == ["uses-2"]
    assert found("/p/one") == []
    assert found("/p/jars-1") == found("/p/chain-1") == ["in-java"]
