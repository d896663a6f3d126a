"""Where plug-ins are installed unless ``connectrt.plugins.directory`` says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.engine.process_plugins import install_directory


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def worker(**settings: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return {"group.id": "orders", "bootstrap.servers": "a:9092,b:9092", **given}


def test_groups_of_one_name_on_two_clusters_have_different_folders(cache: Path) -> None:
    here = install_directory(worker())
    assert here.parent == cache / "plugins"
    assert here.name.startswith("orders-")
    assert install_directory(worker(bootstrap_servers="b:9092, a:9092")) == here, "the same brokers in another order"
    assert install_directory(worker(bootstrap_servers="c:9092")) != here
    assert install_directory(worker(group_id="other")) != here


def test_a_source_checkout_is_passed_over(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    plugins, outside = tmp_path / "project" / "examples" / "plugins", tmp_path / "outside"
    plugins.mkdir(parents=True)
    outside.mkdir()
    assert install_directory(worker(plugin_path=str(plugins))).parent == cache / "plugins"
    assert install_directory(worker(plugin_path=f"{plugins},{outside}")) == outside


def test_a_configured_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    chosen = str(tmp_path / "project" / "plugins")
    assert install_directory(worker(connectrt_plugins_directory=chosen)) == Path(chosen)
