"""Settings: from a file, then the environment, then the command line.

The file is the nearest `mothtrap.toml`, or `pyproject.toml` with a `[tool.mothtrap]`
table, from the working directory upward; in one folder `mothtrap.toml` wins.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from mothtrap.core.errors import ConfigError, nearest

ENV_PREFIX = "MOTHTRAP_"
# Variables that are not settings: switches, and what a launcher tells its children.
ENV_OTHER = ("DISABLE", "RUN_DIR", "CONFIG", "FRAMEWORKS")


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named choice of tensors whose full statistics are captured.

    `tensors` are globs over `kind:name`, e.g. `gradient:blocks.0.*`; `every` is the
    number of steps between captures.
    """

    tensors: tuple[str, ...]
    every: int = 1


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a user can set.

    `overhead` is the share of training time that the governor keeps captures within;
    0 turns the governor off. `queue_mb` bounds the memory of captured data on its way
    to the disk; `on_full` says what gives when it is full: `degrade` thins statistics,
    `drop` drops whole steps, `block` waits. `rules` holds thresholds by rule code.
    `source` says where each setting came from, for messages.
    """

    runs_dir: str = "runs"
    capture: Literal["default", "everything", "off"] = "default"
    overhead: float = 0.02
    queue_mb: float = 64.0
    on_full: Literal["degrade", "drop", "block"] = "degrade"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: dict[str, dict[str, float | int | str | bool]] = {}
    collections: dict[str, Collection] = {}

    def selects(self, code: str) -> bool:
        """Whether the rule `code` is in force, by code or family prefix."""
        chosen = not self.select or any(code.startswith(prefix) for prefix in self.select)
        return chosen and not any(code.startswith(prefix) for prefix in self.ignore)


def find_file(start: Path) -> Path | None:
    """Return the nearest configuration file from `start` upward, or None."""
    for folder in (start, *start.parents):
        own, project = folder / "mothtrap.toml", folder / "pyproject.toml"
        if own.is_file():
            return own
        if project.is_file() and "mothtrap" in _parse(project).get("tool", {}):
            return project
    return None


def load_config(
    *,
    start: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> tuple[Config, tuple[str, ...]]:
    """Read and join all sources.

    Args:
        start: the folder to look for a file from.
        environ: the environment.
        overrides: settings of the command line; None values are left out.

    Returns:
        The configuration, and warnings about variables that mean nothing.

    Raises:
        ConfigError: an unknown key, a value of the wrong type, or a file that is no TOML.
    """
    path = find_file(start)
    values = dict(_read(path)) if path else {}
    known = Config.__struct_fields__
    warnings = []
    for variable in sorted(v for v in environ if v.startswith(ENV_PREFIX)):
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key in known and key not in ("rules", "collections"):
            raw = environ[variable]
            values[key] = (
                tuple(filter(None, raw.split(","))) if key in ("select", "ignore") else raw
            )
            _convert({key: values[key]}, f"environment variable {variable}")
        elif variable.removeprefix(ENV_PREFIX) not in ENV_OTHER:
            names = [ENV_PREFIX + name.upper() for name in known]
            warnings.append(f"{variable} means nothing to mothtrap{nearest(variable, names)}")
    values |= {k: v for k, v in (overrides or {}).items() if v is not None}
    return _convert(values, str(path) if path else "configuration"), tuple(warnings)


def _parse(path: Path) -> dict[str, dict[str, object]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as err:
        raise ConfigError(f"{path}: cannot be read as TOML: {err}") from err


def _read(path: Path) -> dict[str, object]:
    table: object = _parse(path)
    if path.name == "pyproject.toml":
        table = _parse(path).get("tool", {}).get("mothtrap", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [tool.mothtrap] must be a table, not {table!r}")
    values = {key.replace("-", "_"): value for key, value in table.items()}
    _check_keys(values, Config.__struct_fields__, str(path))
    return values


def _check_keys(values: Iterable[str], known: Iterable[str], where: str) -> None:
    names = sorted(known)
    for key in values:
        if key not in names:
            raise ConfigError(
                f"{where}: unknown key {key!r}{nearest(key, names)}; known keys: {', '.join(names)}"
            )


def _convert(values: Mapping[str, object], where: str) -> Config:
    try:
        config = msgspec.convert(dict(values), type=Config, strict=False)
    except msgspec.ValidationError as err:
        raise ConfigError(f"{where}: {err}") from err
    if config.overhead < 0 or config.queue_mb <= 0:
        raise ConfigError(f"{where}: overhead must be 0 or more, queue_mb more than 0")
    return config


def environment(config: Config) -> dict[str, str]:
    """Return the variables that hand `config` to a child process."""
    return {ENV_PREFIX + "CONFIG": msgspec.json.encode(config).decode()}


def inherited_config(environ: Mapping[str, str] = os.environ) -> Config | None:
    """Return the configuration that a parent handed down, or None."""
    text = environ.get(ENV_PREFIX + "CONFIG")
    return msgspec.json.decode(text, type=Config) if text else None
