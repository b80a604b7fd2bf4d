"""The line of the user's code that calls a function or assigns a name, if there is only one."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from types import ModuleType

from mothtrap.core.loaded_modules import LoadedModules
from mothtrap.tracing.source.frames import is_users_file, line_of
from mothtrap.tracing.source.syntax import of_file

FRAMEWORKS = ("torch", "jax", "optax", "flax", "equinox", "tensorflow", "keras")
MOST_FILES = 200
"""Maximum number of files that are read; chosen by hand: in a larger project, the result proves
little.
"""

_modules = LoadedModules()
_files: dict[str, str] = {}
"""The user's files, by name of the module."""


def only_call(
    *names: str, among: Iterable[ModuleType] | None = None, arguments: int | None = None
) -> str | None:
    """Return `file:line` of the only line that calls a function or method with these names.

    These calls do not count: calls through imported modules that are not frameworks (`math.log`),
    of functions that the file itself defines, and with a string argument (`self.log("loss",
    loss)`).

    Args:
        names: last parts of the names, such as `log`, and other spellings.
        among: the user's modules to search; None: all loaded modules.
        arguments: number of arguments of the call, or of elements of its only argument; None: any.
    """
    users = _users_files(among) if among is not None else loaded_files()
    if not 0 < len(users) <= MOST_FILES:
        return None
    calls = [(file, _calls(file)) for file in users]
    found = {
        (file, line)
        for file, of in calls
        for name in names
        for line, count in of.get(name, ())
        if arguments in (None, count)
    }
    return line_of(*found.pop()) if len(found) == 1 else None


def only_assignment(name: str) -> str | None:
    """Return `file:line` of the only line that assigns a variable or an attribute of this name."""
    users = loaded_files()
    if not 0 < len(users) <= MOST_FILES:
        return None
    found = {(file, line) for file in users for line in _assigned(file).get(name, ())}
    return line_of(*found.pop()) if len(found) == 1 else None


def loaded_files() -> list[str]:
    """Return the user's files among all modules; each module is inspected once."""
    modules, are_all = _modules.look()
    if are_all:
        _files.clear()
    for name, module in modules.items():
        if found := _users_files([module]):
            _files[name] = found[0]
    return sorted(set(_files.values()))


def _users_files(modules: Iterable[ModuleType]) -> list[str]:
    files = {str(file) for m in modules if (file := getattr(m, "__file__", None))}
    return sorted(file for file in files if file.endswith(".py") and is_users_file(file))


@functools.lru_cache(maxsize=MOST_FILES)
def _calls(file: str) -> dict[str, list[tuple[int, int]]]:
    """Return line and number of arguments of all calls in a file, by the last part of the name."""
    tree = of_file(file)
    if tree is None:
        return {}
    imported, own = dict(_imported(tree)), set(_defined(tree))
    lines: dict[str, list[tuple[int, int]]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _takes_text(node):
            continue
        called = node.func
        if isinstance(called, ast.Name) and imported.get(called.id) in FRAMEWORKS:
            lines.setdefault(called.id, []).append((node.lineno, _count(node)))
        elif isinstance(called, ast.Attribute) and called.attr not in own:
            holder = called.value.id if isinstance(called.value, ast.Name) else ""
            if imported.get(holder, FRAMEWORKS[0]) in FRAMEWORKS:
                place = called.end_lineno or node.lineno
                lines.setdefault(called.attr, []).append((place, _count(node)))
    return lines


@functools.lru_cache(maxsize=MOST_FILES)
def _assigned(file: str) -> dict[str, list[int]]:
    """Return the lines of all assignments in a file, by the last part of the name."""
    tree = of_file(file)
    lines: dict[str, list[int]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
            lines.setdefault(name, []).append(node.lineno)
    return lines


def _count(call: ast.Call) -> int:
    """Return the number of arguments of a call, or of the elements of its only argument."""
    only = call.args[0] if len(call.args) == 1 else None
    return len(only.elts) if isinstance(only, ast.Tuple | ast.List) else len(call.args)


def _takes_text(call: ast.Call) -> bool:
    """Return whether a call receives a text or a dictionary, so it logs instead of computing."""
    first = call.args[0] if call.args else None
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return is_text or isinstance(first, ast.JoinedStr | ast.Dict)


def _defined(tree: ast.AST) -> Iterator[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return (node.name for node in ast.walk(tree) if isinstance(node, kinds))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield imported names, with the package of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.partition(".")[0]
                yield alias.asname or package, package
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, (node.module or "").partition(".")[0]
