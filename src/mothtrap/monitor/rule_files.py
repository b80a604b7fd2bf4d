"""Rules in a Python file of the user."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType, ModuleType

from mothtrap.core.errors import ConfigError
from mothtrap.core.rule import Rule
from mothtrap.core.rule_form import CODE, check_code, completed
from mothtrap.monitor.rule_faults import LeftOut, advice, line_in, one_line, raised_on_purpose

Read = tuple[tuple[type[Rule], ...], tuple[LeftOut, ...]]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _StatementLoader(InspectLoader):
    """Runs one statement of a file in its module, as the import system runs whole files."""

    def __init__(self, file: Path, statements: list[ast.stmt]) -> None:
        self._file, self._statements = file, statements

    def get_code(self, _fullname: str) -> CodeType:
        part = ast.Module(self._statements, [])
        return self.source_to_code(part, str(self._file))

    def get_source(self, _fullname: str) -> None:
        return None


def rules_in(path: str | Path) -> tuple[type[Rule], ...]:
    """Return the usable rules of a file, sorted by code; see `read_rules`."""
    return read_rules(path)[0]


def read_rules(path: str | Path) -> Read:
    """Return the usable rules of a file, sorted by code, and the rules that are left out.

    The file runs once per process, one statement at a time, and may contain several rules. A rule
    that cannot be created is skipped, and the others are used.

    Raises:
        ConfigError: there is no such file, or it is not a Python file.
    """
    file = Path(path).absolute()
    try:
        changed_ns = file.stat().st_mtime_ns
    except OSError as err:
        raise ConfigError(f"cannot read the rule file {path}: {err.strerror}") from err
    if file.suffix != ".py" or not file.is_file():
        raise ConfigError(f"{file}: a rule file must be a Python file; its name must end in .py")
    return _read(file, changed_ns)


@functools.cache
def _read(file: Path, _changed_ns: int) -> Read:
    # A name that no module has; its last part becomes the name of a rule without a name.
    digest = hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()
    module = ModuleType(f"mothtrap_rules_{digest}.{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses and annotations look up the module there
    defined, left_out = _run(file, module)
    rules: list[type[Rule]] = []
    for made in defined:
        try:
            rule = completed(made)
            check_code(getattr(made, "code", None))
            _check_is_new(rule, rules)
        except ConfigError as err:
            left_out.append(_left_out(file, made, str(err)))
        else:
            rules.append(rule)
    if not rules and not left_out:
        left_out.append(
            LeftOut(
                where=f"{file}:1",
                reason="it contains no rule; write @mothtrap.rule('ACT901') above a function",
            )
        )
    return tuple(sorted(rules, key=lambda rule: rule.code)), tuple(left_out)


def _run(file: Path, module: ModuleType) -> tuple[list[type[Rule]], list[LeftOut]]:
    """Run a file; return the rules that it defines, and the unusable parts.

    A function or class that cannot be created is skipped. If any other statement raises an
    exception, the remaining statements do not run.
    """
    try:
        tree = ast.parse(importlib.util.decode_source(file.read_bytes()), str(file))
    except (SyntaxError, ValueError, RecursionError, OSError) as err:
        line = getattr(err, "lineno", None) or 1
        why = f"it cannot be read: {one_line(err)}; correct line {line}: none of its rules is used"
        return [], [LeftOut(where=f"{file}:{line}", reason=why)]
    module.__doc__ = ast.get_docstring(tree)
    # Future imports apply to everything compiled with them.
    future = [each for each in tree.body if getattr(each, "module", "") == "__future__"]
    defined: dict[type[Rule], None] = {}
    left_out: list[LeftOut] = []
    for statement in tree.body:
        try:
            _StatementLoader(file, [*future, statement]).exec_module(module)
            defined.update(dict.fromkeys(_defined_in(module)))
        except BaseException as err:  # also SystemExit, as of a script
            if isinstance(err, KeyboardInterrupt) and not raised_on_purpose(err):
                raise
            left_out.append(_fault(file, statement, err))
            if not isinstance(statement, _DEFINITIONS):
                break
    return list(defined), left_out


def _fault(file: Path, statement: ast.stmt, err: BaseException) -> LeftOut:
    """Describe the fault of a statement that raised an exception."""
    line = line_in(err, str(file)) or getattr(err, "lineno", None) or statement.lineno
    said = str(err) if isinstance(err, ConfigError) else one_line(err)
    where = f"{file}:{line}"
    if isinstance(statement, _DEFINITIONS):
        reason = f"{said}{advice(err)}"
        return LeftOut(where=where, code=_code(statement), name=statement.name, reason=reason)
    return LeftOut(
        where=where, reason=f"{said}{advice(err)}; correct line {line}: no rule below it is used"
    )


def _code(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return the code that a decorator gives to a definition; '' if it is not a literal."""
    for decorator in definition.decorator_list:
        for value in decorator.args[:1] if isinstance(decorator, ast.Call) else ():
            if isinstance(value, ast.Constant) and CODE.fullmatch(str(value.value)):
                return str(value.value)
    return ""


def _defined_in(module: ModuleType) -> list[type[Rule]]:
    """Return the rules of a file so far; a class without code and `check` is a base class."""
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Rule)
        and value.__module__ == module.__name__
    ]
    return [rule for rule in found if hasattr(rule, "code") or not inspect.isabstract(rule)]


def _check_is_new(rule: type[Rule], others: list[type[Rule]]) -> None:
    for other in others:
        for what, same in (
            ("code", rule.code == other.code),
            ("name", rule.name() == other.name()),
        ):
            if same:
                value = rule.code if what == "code" else rule.name()
                raise ConfigError(
                    f"{rule.__name__}: two rules have the {what} {value!r}; put "
                    "@mothtrap.rule(code) above each, with a different code"
                )


def _left_out(file: Path, made: type[Rule], reason: str) -> LeftOut:
    code: object = getattr(made, "code", "")
    return LeftOut(
        where=f"{file}:{line_of(made)}",
        code=code if isinstance(code, str) else "",
        name=made.__name__,
        reason=reason,
    )


def line_of(made: type[Rule]) -> int:
    """Return the line where a rule, or its `check`, is defined."""
    function = inspect.unwrap(made.check)
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None else 1
