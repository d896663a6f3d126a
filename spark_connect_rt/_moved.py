"""Names of version 0.1 that stay valid although their modules moved: as imports, in configurations, in topics.

Owns the table of old and new module names. The config topic holds the class of each task, and a dead letter the class
that failed. Where a bundled connector moved, both still show its name of version 0.1. An upgrade therefore rewrites no
configuration and restarts no task. Imports of an old name work with a DeprecationWarning until version 0.2.

Imports next to nothing: every process of this package installs the finder before it does anything else.
"""

from __future__ import annotations

import sys

MYPY = False  # as TYPE_CHECKING of ``typing``, whose import costs more than this module
if MYPY:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

ROOT = "spark_connect_rt."

# Old and new names without the package's own. Only what users name: documented imports, modules of bundled plug-ins.
MODULES: dict[str, str] = {
    "app.tables.format_source": "engine.datasource.connectrt",
    "config_providers.directory": "plugins.config_providers",
    "config_providers.env_var": "plugins.config_providers",
    "config_providers.file": "plugins.config_providers",
    "connectors.programs.airbyte_source": "connectors.external_process.airbyte_source",
    "connectors.programs.environments": "connectors.external_process.environments",
    "connectors.programs.singer_source": "connectors.external_process.singer_source",
    "connectors.python_world.dlt_source": "connectors.python_sources.dlt_source",
    "connectors.python_world.lakeflow_source": "connectors.python_sources.lakeflow_source",
    "converters.byte_array": "records.converters.primitive_converters",
    "converters.json": "records.converters.json",
    "converters.numbers": "records.converters.numbers",
    "converters.simple_header": "records.converters.primitive_converters",
    "converters.string": "records.converters.primitive_converters",
    "dlt": "connectors.python_sources.dlt_resource",
    "mirror.filters": "connectors.mirror.filters",
    "mirror.policy": "connectors.mirror.policy",
    "protocol.ids": "base.ids",
    "schema_registry.avro_converter": "records.registry.avro_converter",
    "schema_registry.json_schema_converter": "records.registry.json_schema_converter",
    "schema_registry.protobuf_converter": "records.registry.protobuf_converter",
    "transforms.cast": "records.transforms.cast",
    "transforms.extract_field": "records.transforms.extract_field",
    "transforms.filter": "records.transforms.predicates",
    "transforms.flatten": "records.transforms.flatten",
    "transforms.header_from": "records.transforms.headers",
    "transforms.headers": "records.transforms.headers",
    "transforms.hoist_field": "records.transforms.hoist_field",
    "transforms.insert_field": "records.transforms.insert_field",
    "transforms.mask_field": "records.transforms.mask_field",
    "transforms.predicates": "records.transforms.predicates",
    "transforms.replace_field": "records.transforms.replace_field",
    "transforms.routers": "records.transforms.routers",
    "transforms.set_schema_metadata": "records.transforms.set_schema_metadata",
    "transforms.timestamp_converter": "records.transforms.timestamp_converter",
    "transforms.value_to_key": "records.transforms.value_to_key",
}


def former_names(target: str, modules: dict[str, str] = MODULES) -> tuple[str, ...]:
    """Return the names that ``package.module:Class`` had in version 0.1, in the same form; empty: it never moved."""
    module, _, name = target.partition(":")
    return tuple(f"{ROOT}{old}:{name}" for old, new in modules.items() if f"{ROOT}{new}" == module)


def stored_module(module: str, modules: dict[str, str] = MODULES) -> str:
    """Return the name by which topics know the module of a bundled connector: that of version 0.1."""
    if not module.startswith(f"{ROOT}connectors."):
        return module
    return next((f"{ROOT}{old}" for old, new in modules.items() if f"{ROOT}{new}" == module), module)


class MovedModules:
    """A finder of modules by their old names, asked after all others."""

    def __init__(self, modules: dict[str, str]) -> None:
        """Take old and new names; folders that only old names have are packages without content."""
        self._modules = modules
        self._folders = {old[:at] for old in modules for at, letter in enumerate(old) if letter == "."}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to import an old name, None for any other."""
        if not name.startswith(ROOT):
            return None
        from importlib.machinery import ModuleSpec

        old = name[len(ROOT) :]
        if old in self._modules:
            loader = _Alias(name, ROOT + self._modules[old])
            return ModuleSpec(name, loader, is_package=old in self._folders)  # type: ignore[arg-type]  # by its methods
        return ModuleSpec(name, None, is_package=True) if old in self._folders else None


class _Alias:
    """Fills a module of an old name with the content of the new one."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._warn()
        __import__(self._new)
        found = vars(sys.modules[self._new])
        vars(module).update({name: value for name, value in found.items() if not name.startswith("__")})
        module.__doc__ = found["__doc__"]

    def get_code(self, name: str) -> CodeType:
        """Return the code that ``python -m`` runs for the old name."""
        self._warn()
        text = f"import runpy\nrunpy.run_module({self._new!r}, run_name='__main__', alter_sys=True)\n"
        return compile(text, self._old, "exec")

    def _warn(self) -> None:
        import warnings

        text = f"{self._old} is now {self._new}; the old name is removed in version 0.2"
        warnings.warn(text, DeprecationWarning, stacklevel=3)


def install() -> None:
    """Have this process find old names."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules(MODULES))  # type: ignore[arg-type]  # a finder by its methods
