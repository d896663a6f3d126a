from spark_connect_rt.planning.config_patch import patched_config


def test_a_value_replaces_or_adds_and_none_removes() -> None:
    raw = {"name": "a", "keep": "1", "change": "2", "remove": "3"}
    patch = {"change": "20", "remove": None, "new": "4", "never there": None}
    assert patched_config(raw, patch) == {"name": "a", "keep": "1", "change": "20", "new": "4"}
    assert patched_config(raw, {}) == raw
