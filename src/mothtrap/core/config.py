"""Settings from a file, the environment, and the command line; later settings take precedence.

The file is the nearest `mothtrap.toml`, or `pyproject.toml` with a `[tool.mothtrap]` table,
searched from the working directory upward. If a folder has both, `mothtrap.toml` is used. In
`mothtrap.toml`, keys are at the top level or in `[tool.mothtrap]`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.actions import check_tables, masked, reactions
from mothtrap.core.collections import Collection, complaint, function_name
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.invariants import find as find_invariants
from mothtrap.core.runs import STOPPED
from mothtrap.core.values import fault, to_struct, unknown_key

ENV_PREFIX = "MOTHTRAP_"
# These variables are not settings: they are switches, or a launcher sets them for its children.
ENV_OTHER = ("DISABLE", "RUN_DIR", "CONFIG", "FRAMEWORKS", "CACHE", "REPLAY", "NOTIFY")

# Tables that an environment variable cannot hold.
FILE_ONLY = ("rules", "severity", "per_layer_ignores", "actions")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a run, by key of the configuration file.

    Attributes:
        runs_dir: folder or object store URL for runs.
        capture: captured data: `default` (the needs of the selected rules), `everything`, or
            `off`.
        overhead: limit on the cost of hooks and captures, as a share of the training time, at
            least 0 and below 1. Captures are skipped to stay within it; 0 = skip none.
        max_run_mb: size of a run in MB above which no more tensor values are stored, and then no
            more statistics; 0 = no limit.
        queue_mb: limit in MB on the memory of captured data that waits to be written.
        on_full: action when the queue is full: `degrade` stores fewer statistics, `drop` drops
            whole steps, `block` waits.
        writer: a `thread` of the training process writes, or a separate `process`, which also
            writes the queued data after the training process was killed.
        durability: written data survives a `crash` of processes, or also a loss of `power`.
        workers: capture and evaluate `all` workers, or `rank0` alone. `merged` is `all`, but each
            launcher merges the steps of its workers, and sends to an object store only the
            merged log, findings, and the logs of rank 0 and of workers with findings.
        evaluate: the `job` evaluates rules and runs actions, or a `monitor` does (`mothtrap
            monitor`).
        select, ignore: rules to evaluate or to leave out, by code or family.
        upload_every_s: seconds between uploads of new data to an object store.
        cache_mb: limit in MB on the local copies of runs from object stores; 0 = no limit. The
            least recently read runs are removed first, except runs that are being read.
        severity: severity of all findings of a rule, by code or family.
        per_layer_ignores: codes or families to ignore, by glob over layers.
        rule_files: Python files with additional rules.
        reference: a run to compare with.
        invariants: a file of `mothtrap learn`, or the name of a built-in file.
        inside_compiled: capture requested activations inside compiled modules, too, with an
            operator in the compiled code.
        digests: compute digests of gradients, weights and buffers at every step, so that
            `mothtrap diff` can name the first tensor that differs between two runs.
        perturb: change the initial weights by their rounding error, so that `mothtrap diff
            --perturbed` can measure how far rounding alone drives two runs apart.
        quiet: print findings only: no messages about snapshots, and no verdict without findings.
        cost_per_hour: price of an hour of the job, in any currency; findings then report the cost
            of the steps after their onset.
        on_nonfinite: action at a step whose loss or gradients are not finite, or whose gradient
            norm exceeds `max_gradient_norm`: `report` applies and reports it; `skip` does not
            apply it; `stop` does not apply it and stops the job; `raise` makes
            `optimizer.step()` raise.
        max_gradient_norm: largest gradient norm of a good step; 0 = no limit.
        guard_copies: copy the buffers that a JAX step donates before each step, so that the step
            can be skipped.
        ring_mb: memory in MB for the inputs of the latest steps, which snapshots need; 0 = none.
        snapshots: number of snapshots to keep per worker; 0 = take none.
        snapshot_mb: limit in MB on all snapshots of a worker together.
        snapshot_every: also store the state every n steps, so that a step that turns out bad later
            can be replayed exactly; 0 = never.
        snapshot_at: steps to take a snapshot of.
        replay_at_end: when the script ends, `mothtrap run` replays the first step that was not
            finite or raised an exception.
        recheck: the first bad step is recomputed while the job runs, to see whether the result has
            the same bits.
        redact: globs over names of variables, arguments and batch keys whose values are not
            stored, only their type and shape.
        rules: thresholds by rule code and name.
        collections: collections by name.
        actions: reactions to findings and other events of the run (see `core.actions`).
        stop_exit_code: exit code of a job that was stopped on request.
    """

    runs_dir: str = "runs"
    capture: Literal["default", "everything", "off"] = "default"
    overhead: float = 0.02
    max_run_mb: float = 0.0
    queue_mb: float = 64.0
    on_full: Literal["degrade", "drop", "block"] = "degrade"
    writer: Literal["thread", "process"] = "thread"
    durability: Literal["crash", "power"] = "crash"
    workers: Literal["all", "rank0", "merged"] = "all"
    evaluate: Literal["job", "monitor"] = "job"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    upload_every_s: float = 2.0
    cache_mb: float = 10_240.0
    severity: dict[str, Literal["error", "warning", "info"]] = {}
    per_layer_ignores: dict[str, tuple[str, ...]] = {}
    rule_files: tuple[str, ...] = ()
    reference: str = ""
    invariants: str = ""
    inside_compiled: bool = True
    digests: bool = False
    perturb: bool = False
    quiet: bool = False
    cost_per_hour: float = 0.0
    on_nonfinite: Literal["report", "skip", "stop", "raise"] = "report"
    max_gradient_norm: float = 0.0
    guard_copies: bool = False
    ring_mb: float = 64.0
    snapshots: int = 4
    snapshot_mb: float = 4096.0
    snapshot_every: int = 0
    snapshot_at: tuple[int, ...] = ()
    replay_at_end: bool = False
    recheck: bool = False
    redact: tuple[str, ...] = ()
    rules: dict[str, dict[str, float | int | str | bool]] = {}
    collections: dict[str, Collection] = {}
    actions: tuple[dict[str, Any], ...] = ()
    stop_exit_code: int = STOPPED

    @property
    def roll_s(self) -> float | None:
        """Seconds after which a segment is sealed; None = segments are sealed by size only."""
        return self.upload_every_s if "://" in self.runs_dir else None

    def selects(self, code: str) -> bool:
        """Return True if the rule `code` is selected, by code or family prefix."""
        chosen = not self.select or any(code.startswith(prefix) for prefix in self.select)
        return chosen and not any(code.startswith(prefix) for prefix in self.ignore)

    @property
    def names_rules(self) -> bool:
        """Return whether a setting names rules or actions, which must be loaded for validation."""
        return any(
            (
                *(self.select, self.ignore, self.severity, self.per_layer_ignores),
                *(self.rules, self.rule_files, self.invariants, self.collections),
                self.actions,
            )
        )


def with_thresholds(
    config: Config, thresholds: Mapping[str, Mapping[str, float | int | str | bool]]
) -> Config:
    """Return a configuration with additional thresholds, by rule code and name."""
    rules = {code: dict(values) for code, values in config.rules.items()}
    for code, values in thresholds.items():
        rules[code] = {**rules.get(code, {}), **values}
    return msgspec.structs.replace(config, rules=rules)


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Return whether `MOTHTRAP_DISABLE` turns everything off (any value except 0)."""
    return environ.get("MOTHTRAP_DISABLE", "") not in ("", "0")


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
    """Read and merge all configuration sources.

    Args:
        start: folder from which to search for a file, upward.
        environ: environment variables.
        overrides: settings from the command line or a call; None values are ignored.

    Returns:
        The configuration, and warnings about unknown variables.

    Raises:
        ConfigError: a key is unknown, a value is invalid, or a file is not valid TOML.
    """
    sources, warnings = _sources(start, environ)
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    _checked(given, "")
    given = _with_whole_paths(given, start)
    return _checked(_joined([*sources.values(), given]), ""), warnings


def origins(*, start: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the source of each setting (dotted): a file or a variable.

    Collections are listed by name (`collections.early`). Settings that are not listed have their
    defaults. Raises the same errors as `load_config`.
    """
    found: dict[str, str] = {}
    for source, values in _sources(start, environ)[0].items():
        for key, value in values.items():
            if key == "collections" and isinstance(value, Mapping):
                found |= {f"{key}.{name}": source for name in value}
            else:
                found[key] = source
    return found


def located(err: ConfigError, *, start: Path, environ: Mapping[str, str]) -> ConfigError:
    """Return an error about `configuration: ...` that names the source of that setting instead."""
    text = str(err)
    for key, source in origins(start=start, environ=environ).items():
        named = tuple(
            f"configuration: {begun}" for begun in (f"{key} ", f"{key}.", f"{key}[", f"[{key}.")
        )
        if text.startswith(named):
            return ConfigError(source + text.removeprefix("configuration"))
    return err


def _sources(
    start: Path, environ: Mapping[str, str]
) -> tuple[dict[str, Mapping[str, object]], tuple[str, ...]]:
    """Return the settings of the file and of each variable, highest priority last, and warnings."""
    path = find_file(start)
    found: dict[str, Mapping[str, object]] = {str(path): _read(path)} if path else {}
    known = Config.__struct_fields__
    warnings = []
    for variable in sorted(v for v in environ if v.startswith(ENV_PREFIX)):
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key in known and key not in FILE_ONLY:
            value = _value(variable, key, environ[variable])
            found[variable] = _with_whole_paths({key: value}, start)
            _checked(found[variable], variable)
        elif variable.removeprefix(ENV_PREFIX) not in ENV_OTHER:
            names = [ENV_PREFIX + name.upper() for name in known]
            warnings.append(f"{variable} is not a setting of mothtrap{nearest(variable, names)}")
    return found, tuple(warnings)


def _value(variable: str, key: str, text: str) -> object:
    if key in ("select", "ignore", "rule_files", "snapshot_at"):
        return tuple(filter(None, text.split(",")))
    if key != "collections":
        return text
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text)
    # A table on one line, with or without braces.
    inner = text.strip().removeprefix("{").removesuffix("}") if text.startswith("{") else text
    try:
        return tomllib.loads(f"collections = {{{inner}}}")["collections"]
    except tomllib.TOMLDecodeError as err:
        raise fault(
            variable,
            f"{text!r} is neither JSON nor TOML in one line ({err}); expected a table of "
            "collections such as gradients = {every = 100}",
        ) from err


def _joined(sources: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Join settings; later settings override earlier ones, and collections are merged by name."""
    values: dict[str, object] = {}
    for source in sources:
        for key, value in source.items():
            before = values.get(key)
            if key == "collections" and isinstance(before, Mapping) and isinstance(value, Mapping):
                values[key] = {**before, **value}
            else:
                values[key] = value
    return values


def _parse(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as err:
        raise ConfigError(f"{path}: cannot be read as TOML: {err}") from err


def _tool_table(content: Mapping[str, object]) -> object:
    """Return the table `[tool.mothtrap]`, or None."""
    tool = content.get("tool")
    return tool.get("mothtrap") if isinstance(tool, dict) else None


def _read(path: Path) -> dict[str, object]:
    content = _parse(path)
    table = _tool_table(content)
    if not isinstance(table, dict | None):
        raise ConfigError(f"{path}: [tool.mothtrap] must be a table, not {table!r}")
    values = _with_underscores(table or {})
    if path.name == "mothtrap.toml":
        # A `tool` table without `mothtrap` is kept, and rejected later as an unknown key.
        own = {k: v for k, v in content.items() if k != "tool" or table is None}
        top = _with_underscores(own)
        if twice := sorted(top.keys() & values.keys()):
            raise ConfigError(
                f"{path}: {twice[0]} is set both at the top level and in [tool.mothtrap]; keep "
                "one of them"
            )
        values |= top
    for key in values:
        if key not in Config.__struct_fields__:
            raise fault(str(path), unknown_key(key, Config.__struct_fields__))
    _checked(values, str(path))
    return _with_whole_paths(values, path.parent)


def _with_whole_paths(values: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return settings with absolute paths; relative paths are resolved against `folder`."""
    found = dict(values)
    files, learned = values.get("rule_files"), values.get("invariants")
    if isinstance(files, list | tuple):
        found["rule_files"] = [str((folder / str(file)).absolute()) for file in files]
    if isinstance(learned, str) and learned:
        found["invariants"] = str((folder / find_invariants(learned)).absolute())
    return found


def _with_underscores(table: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("-", "_"): value for key, value in table.items()}


def _checked(values: Mapping[str, object], where: str) -> Config:
    check_tables(values.get("actions", ()), where)
    config = to_struct(values, Config, where)
    if not 0 <= config.overhead < 1:
        raise fault(
            where,
            f"overhead cannot be {config.overhead:g}: it is a share of the training time (0.02 is "
            "2 %), at least 0 (no limit) and below 1",
        )
    for key in ("max_run_mb", "cache_mb"):
        if not 0 <= (size := getattr(config, key)) < float("inf"):
            raise fault(where, f"{key} must be 0 (no limit) or more and finite, not {size:g}")
    if not 0 < config.queue_mb < float("inf"):
        raise fault(where, f"queue_mb must be more than 0 and finite, not {config.queue_mb:g}")
    if config.workers == "rank0" and config.on_nonfinite != "report":
        raise fault(
            where,
            f"on_nonfinite = {config.on_nonfinite!r} cannot be combined with workers = 'rank0', "
            "because all workers must agree on a step; leave workers at 'all'",
        )
    if not 0 <= config.max_gradient_norm < float("inf"):
        given = f"{config.max_gradient_norm:g}"
        raise fault(where, f"max_gradient_norm must be 0 (no limit) or more, not {given}")
    if not 0 < config.upload_every_s < float("inf"):
        given = f"{config.upload_every_s:g}"
        raise fault(where, f"upload_every_s must be more than 0 seconds and finite, not {given}")
    _check_snapshots(config, where)
    if not 0 <= config.stop_exit_code <= 255:
        raise fault(where, f"stop_exit_code must be 0 to 255, not {config.stop_exit_code}")
    stops = any("stop" in reaction.do for reaction in reactions(config.actions, where))
    if stops and config.workers == "rank0":
        raise fault(
            where,
            "the action `stop` cannot be combined with workers = 'rank0'; leave workers at 'all'",
        )
    for name, collection in config.collections.items():
        found = complaint(name, collection)
        if found:
            raise fault(where, f"collections.{name}.{found}")
    return config


def _check_snapshots(config: Config, where: str) -> None:
    for key in ("snapshots", "snapshot_every", "ring_mb", "snapshot_mb"):
        value = getattr(config, key)
        if not 0 <= value < float("inf"):
            raise fault(where, f"{key} must be 0 or more and finite, not {value:g}")
    for step in config.snapshot_at:
        if step < 0:
            raise fault(where, f"snapshot_at needs steps, which are counted from 0, not {step}")


def plain(config: Config) -> dict[str, object]:
    """Return a configuration as plain values without secrets; functions become their names."""
    config = msgspec.structs.replace(config, actions=masked(config.actions))
    values: dict[str, object] = msgspec.to_builtins(config, enc_hook=function_name)
    return values


def given(collection: Collection) -> dict[str, object]:
    """Return the fields of a collection that differ from the defaults, as plain values."""
    values: dict[str, object] = msgspec.to_builtins(collection, enc_hook=function_name)
    defaults = msgspec.to_builtins(Collection())
    return {key: value for key, value in values.items() if value != defaults[key]}


def schema() -> dict[str, object]:
    """Return the JSON schema of the configuration."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **msgspec.json.schema(Config)}


def environment(config: Config) -> dict[str, str]:
    """Return the environment variables that pass `config` to a child process."""
    return {ENV_PREFIX + "CONFIG": jsonable.text(plain(config))}


def inherited_config(environ: Mapping[str, str] = os.environ) -> Config | None:
    """Return the configuration passed by a parent process, or None."""
    text = environ.get(ENV_PREFIX + "CONFIG")
    return msgspec.json.decode(text, type=Config) if text else None
