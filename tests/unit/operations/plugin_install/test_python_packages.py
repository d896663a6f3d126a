"""What pip and uv say is missing beside the worker's own packages."""

from __future__ import annotations

import pytest

from spark_connect_rt.operations.plugin_install import installer as python_packages
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError
from spark_connect_rt.operations.plugin_install.installer import install_packages, missing_of_uv

UV = """Using Python 3.11.7 environment at: .venv
Resolved 2 packages in 4ms
Would download 1 package
Would install 2 packages
 + new-orders @ file:///drop/new_orders-1.0-py3-none-any.whl
 + tomli==2.0.1
"""


def test_packages_that_uv_would_install_are_read() -> None:
    assert missing_of_uv(UV) == ["new-orders @ file:///drop/new_orders-1.0-py3-none-any.whl", "tomli==2.0.1"]
    assert missing_of_uv("Audited 1 package in 1ms") == []


def test_a_package_that_the_worker_has_is_refused_and_its_own_copies_stay(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("target")
    ran: list[list[str]] = []
    monkeypatch.setattr(python_packages, "_uses_uv", lambda: True)
    monkeypatch.setattr(python_packages, "_installer", lambda: ["uv"])

    def run(command: list[str]) -> str:
        ran.append(command)
        return UV

    monkeypatch.setattr(python_packages, "_run", run)
    wheel = "/drop/new_orders-1.0-py3-none-any.whl"
    assert install_packages(wheel, "New_Orders", folder)[1:] == ["tomli==2.0.1"]
    assert ran[-1] == ["uv", "--target", str(folder), "--no-deps", wheel, "tomli==2.0.1"]
    with pytest.raises(NotFetchedError, match="is already installed in the worker"):
        install_packages("spark-connect-rt", "spark-connect-rt", folder)
