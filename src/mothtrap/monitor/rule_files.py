"""Rules that a user keeps in a Python file of their own."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path

from mothtrap.core.errors import ConfigError
from mothtrap.core.own_rules import CODE
from mothtrap.core.rule import Rule


def rules_in(path: str | Path) -> tuple[type[Rule], ...]:
    """Return the rules of a file, sorted by code; the file is run, once a process.

    A file may hold several rules, if each is made by `@mothtrap.rule`.

    Raises:
        ConfigError: there is no such file, it cannot be run, or it holds no rule.
    """
    file = Path(path).absolute()
    try:
        changed_ns = file.stat().st_mtime_ns
    except OSError as err:
        raise ConfigError(f"no file of rules {path}: {err.strerror}") from err
    return _rules_in(file, changed_ns)


@functools.cache
def _rules_in(file: Path, _changed_ns: int) -> tuple[type[Rule], ...]:
    # A name that no module has; its last part names a rule that says no name of its own.
    digest = hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()
    name = f"mothtrap_rules_{digest}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file}: rules are kept in a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as err:  # whatever the file raises
        del sys.modules[name]
        raise ConfigError(f"{file}: cannot be used: {type(err).__name__}: {err}") from err
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Rule)
        and not inspect.isabstract(value)
        and value.__module__ == name
    ]
    _check(file, found)
    return tuple(sorted(found, key=lambda rule: rule.code))


def _check(file: Path, found: list[type[Rule]]) -> None:
    if not found:
        raise ConfigError(f"{file}: holds no rule; a rule is made by @mothtrap.rule(code)")
    for rule in found:
        code: object = getattr(rule, "code", None)
        if not isinstance(code, str) or not CODE.fullmatch(code):
            raise ConfigError(f"{file}: {rule.__name__} needs a code such as ACT901; has {code!r}")
        try:
            rule()
        except TypeError as err:
            raise ConfigError(f"{file}: {rule.__name__}: every threshold needs a default") from err
    for what in ("code", "name"):
        said = [rule.code if what == "code" else rule.name() for rule in found]
        if twice := sorted({word for word in said if said.count(word) > 1}):
            raise ConfigError(
                f"{file}: two rules have the {what} {twice[0]!r}; put @mothtrap.rule(code) "
                "above each, with a code of its own"
            )
