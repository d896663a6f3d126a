"""The files that every new project has, whatever its kind."""

from __future__ import annotations

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["spark-connect-rt"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."spark_connect_rt.${kind}_connectors"]
$class_name = "$module:$class_name"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

README = """
# $name

A $kind connector for spark-connect-rt.

| You want to | Run here |
|---|---|
| see what it does while you write it | `connectrt dev connector.json` |
| test it | `pytest` |
| build a wheel | `pip wheel --no-deps --wheel-dir dist .` |
| install the wheel on running workers | `connectrt plugins install dist/WHEEL --url http://HOST:8083` |
| start the connector there | `connectrt apply -f connector.json --url http://HOST:8083` |
"""
