"""Parameters of a script, found at its first step without changing the script."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mothtrap.core.ledger import LedgerValue
from mothtrap.core.parameters import fields_of, flat
from mothtrap.session.record import parsed

HOLDERS = frozenset(
    {"args", "arguments", "cfg", "conf", "config", "configuration", "flags", "hparams"}
    | {"hyperparameters", "hyperparams", "hps", "opt", "opts", "options", "params", "settings"}
    | {"training_args", "train_config", "training_config", "model_config"}
)
"""Names of global variables that contain parameters, used if no parser is found."""
MAX_SOURCE = 2 << 20


class Settings(NamedTuple):
    """Parameters by name, names that differ from the parser's default, and the source."""

    values: dict[str, LedgerValue]
    given: tuple[str, ...]
    source: str


def seen_now() -> list[tuple[str, object, dict[str, object]]]:
    """Return objects with parameters, on the training thread: source, object, defaults by name."""
    kept = parsed.take()
    found: list[tuple[str, object, dict[str, object]]] = []
    if "hydra" in kept:
        found.append(("hydra", kept["hydra"][0], {}))
    else:
        if "argparse" in kept:
            found.append(("argparse", *kept["argparse"]))
        made = [kept[name] for name in map("OmegaConf.{}".format, parsed.MADE_BY) if name in kept]
        found += [("OmegaConf", holder, {}) for holder, _ in made[:1]]
    found += [("absl", values, {}) for values in _absl()]
    found += [("click", values, {}) for values in _click()]
    return found or [("script", values, {}) for values in _held_globals()]


def settle(seen: list[tuple[str, object, dict[str, object]]]) -> Settings:
    """Return the parameters of all sources; for duplicate names, the first source counts.

    Constants that a script assigns once, at its top level, also count as parameters.

    Args:
        seen: result of `seen_now`.
    """
    values: dict[str, LedgerValue] = {}
    given: list[str] = []
    sources = []
    for source, holder, defaults in seen:
        opened = _opened(holder)
        if source == "hydra" and isinstance(opened, dict):
            given += _overridden(opened.pop("hydra", None))
        own, _ = flat(opened)
        if source == "script":  # a tree of weights may also have such a name
            own = {n: v for n, v in own.items() if not str(v).startswith("<")}
        before, _ = flat(defaults)
        given += [name for name in own if name in before and own[name] != before[name]]
        values = own | values
        sources.append(source)
    constants, _ = flat(_constants())
    if new := {name: value for name, value in constants.items() if name not in values}:
        values |= new
        sources.append("constants of the script")
    return Settings(dict(sorted(values.items())), tuple(dict.fromkeys(given)), ", ".join(sources))


def _opened(holder: object) -> object:
    """Return the values of an OmegaConf configuration without calling resolvers."""
    omegaconf: Any = sys.modules.get("omegaconf")
    if omegaconf is None or not isinstance(holder, omegaconf.Container):
        return holder
    whole = omegaconf.OmegaConf.to_container(holder, resolve=False)
    return _with_references(whole, whole)


def _overridden(own: object) -> list[str]:
    """Return the names that hydra's command line sets in hydra's own settings."""
    overrides = own.get("overrides") if isinstance(own, dict) else None
    words = overrides.get("task") if isinstance(overrides, dict) else None
    return [str(word).lstrip("+~").partition("=")[0] for word in words or ()]


def _with_references(value: Any, whole: Any) -> Any:
    """Replace `${a.b}` with values; calls of resolvers remain as written."""
    if isinstance(value, dict):
        return {key: _with_references(part, whole) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_references(part, whole) for part in value]
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        target = whole
        for word in value[2:-1].split("."):
            target = target.get(word) if isinstance(target, dict) else None
        is_plain = target is not None and not isinstance(target, dict | list)
        return target if is_plain else value
    return value


def _absl() -> list[Mapping[str, object]]:
    """Return the flags that the script itself defines."""
    flags: Any = getattr(sys.modules.get("absl.flags"), "FLAGS", None)
    main = sys.modules.get("__main__")
    if flags is None or not flags.is_parsed():
        return []
    known = flags.flags_by_module_dict()
    names = [sys.argv[0], getattr(main, "__name__", ""), getattr(main, "__file__", "") or ""]
    own = [flag for name in dict.fromkeys(names) for flag in known.get(name, [])]
    return [{flag.name: flag.value for flag in own}] if own else []


def _click() -> list[Mapping[str, object]]:
    """Return the parameters of the current command and of the commands above it."""
    click: Any = sys.modules.get("click")
    context = click.get_current_context(silent=True) if click is not None else None
    found: dict[str, object] = {}
    while context is not None:
        found = {**context.params, **found}
        context = context.parent
    return [found] if found else []


def _held_globals() -> list[object]:
    held = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return [value for name, value in list(held.items()) if name.lower() in HOLDERS and _is(value)]


def _is(value: object) -> bool:
    return fields_of(value) is not None and not isinstance(value, types.ModuleType)


def _constants() -> dict[str, object]:
    """Return names to which the script assigns a number or text once, at its top level."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if not isinstance(path, str) or not path.endswith(".py"):
        return {}
    try:
        source = Path(path).read_bytes()
        tree = ast.parse(source) if len(source) <= MAX_SOURCE else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    stored: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
        elif isinstance(node, ast.Global):
            stored |= dict.fromkeys(node.names, 2)
    held = vars(main)
    names = [name for node in tree.body for name in _assigned(node)]
    once = [n for n in names if stored.get(n) == 1 and not n.startswith("_") and n in held]
    return {n: held[n] for n in once if isinstance(held[n], bool | int | float | str | type(None))}


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    value = getattr(node, "value", None)
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if isinstance(value, ast.expr) and _is_constant(value) else []


def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression is a number or text, or arithmetic with these."""
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Constant)
