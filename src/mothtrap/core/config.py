"""Settings: from a file, then the environment, then the command line.

The file is the nearest `mothtrap.toml`, or `pyproject.toml` with a `[tool.mothtrap]`
table, from the working directory upward; in one folder `mothtrap.toml` wins. In
`mothtrap.toml` keys stand at the top or in `[tool.mothtrap]`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.values import fault, to_struct, unknown_key

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

    `overhead` is the share of training time, at least 0 and below 1, that the governor
    keeps captures within; 0 turns the governor off. `queue_mb` bounds the memory of
    captured data on its way to the disk; `on_full` says what gives when it is full:
    `degrade` thins statistics, `drop` drops whole steps, `block` waits. `writer`: a
    `thread` of the training process, or a `process` beside it, which also writes what
    was still queued when the training process was killed. `durability`: what is written
    survives a `crash` of processes, or the loss of `power` too. `rules` holds thresholds
    by rule code.
    """

    runs_dir: str = "runs"
    capture: Literal["default", "everything", "off"] = "default"
    overhead: float = 0.02
    queue_mb: float = 64.0
    on_full: Literal["degrade", "drop", "block"] = "degrade"
    writer: Literal["thread", "process"] = "thread"
    durability: Literal["crash", "power"] = "crash"
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
        if project.is_file() and _tool_table(_parse(project)) is not None:
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
        overrides: settings of the command line or a call; None values are left out.

    Returns:
        The configuration, and warnings about variables that mean nothing.

    Raises:
        ConfigError: an unknown key, a value that cannot be, or a file that is no TOML.
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
            _checked({key: values[key]}, variable)
        elif variable.removeprefix(ENV_PREFIX) not in ENV_OTHER:
            names = [ENV_PREFIX + name.upper() for name in known]
            warnings.append(f"{variable} means nothing to mothtrap{nearest(variable, names)}")
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    _checked(given, "")
    return _checked(values | given, ""), tuple(warnings)


def _parse(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as err:
        raise ConfigError(f"{path}: cannot be read as TOML: {err}") from err


def _tool_table(content: Mapping[str, object]) -> object:
    """Return what stands at `[tool.mothtrap]`, or None."""
    tool = content.get("tool")
    return tool.get("mothtrap") if isinstance(tool, dict) else None


def _read(path: Path) -> dict[str, object]:
    content = _parse(path)
    table = _tool_table(content)
    if not isinstance(table, dict | None):
        raise ConfigError(f"{path}: [tool.mothtrap] must be a table, not {table!r}")
    values = _with_underscores(table or {})
    if path.name == "mothtrap.toml":
        # A `tool` without our table stays, and is refused as an unknown key.
        own = {k: v for k, v in content.items() if k != "tool" or table is None}
        top = _with_underscores(own)
        if twice := sorted(top.keys() & values.keys()):
            raise ConfigError(
                f"{path}: {twice[0]} stands at the top and in [tool.mothtrap]; keep one of them"
            )
        values |= top
    for key in values:
        if key not in Config.__struct_fields__:
            raise fault(str(path), unknown_key(key, Config.__struct_fields__))
    _checked(values, str(path))
    return values


def _with_underscores(table: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("-", "_"): value for key, value in table.items()}


def _checked(values: Mapping[str, object], where: str) -> Config:
    config = to_struct(values, Config, where)
    if not 0 <= config.overhead < 1:
        raise fault(
            where,
            f"overhead cannot be {config.overhead:g}: overhead is a share of the training time: "
            "0.02 is 2 %; it must be at least 0 (no limit) and below 1",
        )
    if not 0 < config.queue_mb < float("inf"):
        raise fault(where, f"queue_mb must be more than 0 and finite, not {config.queue_mb:g}")
    for name, collection in config.collections.items():
        if collection.every < 1:
            raise fault(
                where, f"collections.{name}.every must be 1 step or more, not {collection.every}"
            )
    return config


def environment(config: Config) -> dict[str, str]:
    """Return the variables that hand `config` to a child process."""
    return {ENV_PREFIX + "CONFIG": msgspec.json.encode(config).decode()}


def inherited_config(environ: Mapping[str, str] = os.environ) -> Config | None:
    """Return the configuration that a parent handed down, or None."""
    text = environ.get(ENV_PREFIX + "CONFIG")
    return msgspec.json.decode(text, type=Config) if text else None
