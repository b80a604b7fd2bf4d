"""The rules of the repository: permitted imports, and what no file may contain.

Every check is a function of a source tree, so that a counterpart can plant an offence in a copy and
prove that the check finds it.
"""

from __future__ import annotations

import ast
import importlib
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.syntax_trees import files, nodes, parsed

SOURCE = Path(__file__).parents[1] / "src" / "mothtrap"
TESTS = Path(__file__).parent
PACKAGE = "mothtrap"

# A package imports itself and packages with a lower number.
LAYERS = {
    "cli": 9,
    "web": 8,
    "agents": 8,
    "testing": 8,
    "session": 7,
    "notebook": 7,
    "monitor": 6,
    "report": 6,
    "exports": 6,
    "adapters": 5,
    "rules": 5,
    "repairs": 5,
    "actions": 5,
    "checks": 4,
    "behavior": 5,
    "profile": 5,
    "tracing": 4,
    "capture": 3,
    "reader": 3,
    "snapshot": 3,
    "store": 2,
    "statistics": 1,
    "core": 0,
}
TOP_MODULES = {"__init__", "__main__"}
PROGRAMS = "examples"
CORE_MAY_IMPORT = {"numpy", "msgspec", PACKAGE}
FRAMEWORKS = {
    "torch",
    "keras",
    "tensorflow",
    "jax",
    "xgboost",
    "lightgbm",
    "catboost",
    "sklearn",
    "mxnet",
    "lightning",
    "transformers",
    "accelerate",
    "wandb",
    "mlflow",
}
BUILT_ON = {"keras": "tensorflow"}
"""Frameworks whose adapter also names another one, on which they train."""
NO_PICKLE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "pickle5",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "joblib",
    "marshal",
    "shelve",
}
UNPICKLING = {
    *("torch.load", "torch.jit.load", "torch.serialization.load"),
    *("numpy.load", "pandas.read_pickle", "concurrent.futures.ProcessPoolExecutor"),
    *(f"multiprocessing.{name}" for name in ("Pipe", "Pool", "Queue", "connection", "managers")),
}
READ_WHEN_TRUSTED = {
    "adapters/_models/pickled.py": {"joblib"},
    "monitor/executors/processes.py": {"concurrent.futures.ProcessPoolExecutor"},
}
"""Files that read a pickle if the user trusts it explicitly (`mothtrap probe --trust-pickle`), or
that only read bytes from processes that they started themselves.
"""
EXECUTING = {"eval", "exec", "compile"}
MAX_LINES = 500
LONG_FILES: dict[str, str] = {}
_IMPORTS = re.compile(rf"\bfrom\s+({PACKAGE}[\w.]*)\s+import\b")
"""Imports, also those in texts: a file without a doubtful one is not parsed."""


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every dotted name that is imported anywhere in a file, with its line."""
    for node in nodes(tree, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names)
    for node in nodes(tree, ast.ImportFrom):
        if node.level:
            yield "." * node.level + (node.module or ""), node.lineno
        else:
            yield from ((f"{node.module}.{a.name}", node.lineno) for a in node.names)


def layering_offences(source: Path) -> list[str]:
    """Return imports that go up, sideways, or to a package without a level."""
    offences = []
    for path, tree in files(source):
        own = path.parts[0] if len(path.parts) > 1 else ""
        if own == "" and path.stem in TOP_MODULES:
            continue
        for name, line in imported(tree):
            where = f"{path}:{line}"
            parts = name.split(".")
            if name.startswith("."):
                offences.append(f"{where} imports relatively")
            elif parts[0] != PACKAGE:
                if own == "core" and parts[0] not in CORE_MAY_IMPORT | sys.stdlib_module_names:
                    offences.append(f"{where} core imports {parts[0]}")
            elif own == PROGRAMS:
                offences.append(f"{where} an example imports mothtrap")
            else:
                other = parts[1] if len(parts) > 1 else ""
                lower = LAYERS.get(other, 99) < LAYERS.get(own, -1)
                if other != own and not lower:
                    offences.append(f"{where} {own or path.stem} imports {name}")
    return offences


def framework_offences(source: Path) -> list[str]:
    """Return frameworks imported outside a file or folder with their name, such as `on_torch`."""
    offences = []
    for path, tree in files(source):
        if path.parts[0] == PROGRAMS:
            continue
        homes = {path.stem.removeprefix("on_"), *path.parent.parts}
        homes |= {base for home, base in BUILT_ON.items() if home in homes}
        home_layers = {"adapters", "statistics", "checks", "behavior"}
        for name, line in imported(tree):
            framework = name.split(".")[0]
            at_home = framework in homes and path.parts[0] in home_layers
            if framework in FRAMEWORKS and not at_home:
                offences.append(f"{path}:{line} imports {framework}")
    return offences


def pickle_offences(source: Path) -> list[str]:
    """Return ways to execute code from stored bytes."""
    offences = []
    for path, tree in files(source):
        offences += [
            f"{path}:{line} imports {name}"
            for name, line in imported(tree)
            if (name.split(".")[0] in NO_PICKLE_MODULES or name in UNPICKLING)
            and name not in READ_WHEN_TRUSTED.get(path.as_posix(), ())
        ]
        names = dict(named(tree))
        for node in nodes(tree, ast.Attribute):
            if whole(node, names) in UNPICKLING:
                offences.append(f"{path}:{node.lineno} uses {ast.unparse(node)}")
        for keyword in nodes(tree, ast.keyword):
            if keyword.arg == "allow_pickle":
                offences.append(f"{path}:{keyword.value.lineno} passes allow_pickle")
        for call in nodes(tree, ast.Call):
            if _executes(call) or _imports_by_text(call):
                offences.append(f"{path}:{call.lineno} executes what it is given")
    return offences


def named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a file imports and the objects to which they refer: `t`, `torch`."""
    for node in nodes(tree, ast.Import):
        yield from ((a.asname, a.name) for a in node.names if a.asname)
    for node in nodes(tree, ast.ImportFrom):
        yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def whole(node: ast.Attribute, named: dict[str, str]) -> str:
    """Return the dotted name to which an expression refers; empty unless it is such a name."""
    parts: list[str] = []
    of: ast.expr = node
    while isinstance(of, ast.Attribute):
        parts.append(of.attr)
        of = of.value
    return ".".join([named.get(of.id, of.id), *reversed(parts)]) if isinstance(of, ast.Name) else ""


def _imports_by_text(call: ast.Call) -> bool:
    """Return whether a call imports a module of pickle by a name in a string."""
    called = getattr(call.func, "id", getattr(call.func, "attr", ""))
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    return called in ("import_module", "__import__") and bool(NO_PICKLE_MODULES & set(texts))


def _executes(call: ast.Call) -> bool:
    """Return whether a call executes text as code, except text that is a literal in the source."""
    written = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return isinstance(call.func, ast.Name) and call.func.id in EXECUTING and not written


def handle_offences(source: Path) -> list[str]:
    """Return uses of an adapter's handle beyond its protocol, outside of adapters."""
    offences = []
    for path, tree in files(source):
        if path.parts[0] == "adapters":
            continue
        for use in nodes(tree, ast.Attribute):
            if use.attr == "tracer":
                offences.append(f"{path}:{use.lineno} names the tracer of an adapter")
        for node in (*nodes(tree, ast.arg), *nodes(tree, ast.AnnAssign)):
            if (
                node.annotation is not None
                and "handle"
                in (node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
                and re.search(r"\bAny\b", ast.unparse(node.annotation))
            ):
                offences.append(f"{path}:{node.lineno} types a handle as Any")
    return offences


def length_offences(source: Path) -> list[str]:
    """Return files that are too long without a reason in `LONG_FILES`."""
    return [
        f"{path} has {count} lines"
        for path in sorted(source.rglob("*.py"))
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
        and str(path.relative_to(source)) not in LONG_FILES
    ]


def export_offences(source: Path) -> list[str]:
    """Return packages whose `__all__` is unsorted or names what the file does not define."""
    offences = []
    for path, tree in files(source):
        listed = next(
            (
                ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
            ),
            None,
        )
        if listed is None:
            continue
        if list(listed) != sorted(listed):
            offences.append(f"{path}: __all__ is not sorted")
        missing = set(listed) - _defined(tree)
        offences += [
            f"{path}: __all__ names {name}, which is not there" for name in sorted(missing)
        ]
    return offences


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module binds at its top, or serves lazily through `__getattr__`."""
    names = {node.name for node in nodes(tree, ast.FunctionDef, ast.ClassDef)}
    for statement in nodes(tree, ast.Import, ast.ImportFrom):
        names |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    names |= {name.id for name in nodes(tree, ast.Name) if isinstance(name.ctx, ast.Store)}
    for node in nodes(tree, ast.Dict):
        names |= {k.value for k in node.keys if isinstance(k, ast.Constant)}
    return names


def import_offences(source: Path) -> list[str]:
    """Return imports of modules of this package that do not exist."""
    return [
        f"{path.relative_to(source)}:{node.lineno} imports from {node.module}"
        for path in sorted(source.rglob("*.py"))
        if not all(map(_is_module, _IMPORTS.findall(path.read_text(encoding="utf-8"))))
        for node in nodes(parsed(path), ast.ImportFrom)
        if (node.module or "").partition(".")[0] == PACKAGE and not _is_module(node.module or "")
    ]


@cache
def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split(".")[1:])
    compiled = [*path.parent.glob(f"{path.name}.c"), *path.parent.glob(f"{path.name}.*.so")]
    return path.is_dir() or path.with_suffix(".py").is_file() or bool(compiled)


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["src", "tests"])
def test_imported_modules_exist(folder: Path) -> None:
    assert import_offences(folder) == []


def test_import_check_sees_a_module_that_is_gone(tmp_path: Path) -> None:
    plant(tmp_path, "rules/bad.py", "from mothtrap.core.gone import X")
    plant(tmp_path, "rules/good.py", "from mothtrap.core.rule import Rule")
    assert len(import_offences(tmp_path)) == 1


def test_imports_go_down_only() -> None:
    assert layering_offences(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("core/bad.py", "import mothtrap.store.layout"),
        ("core/bad.py", "import pyarrow"),
        ("store/bad.py", "def f():\n    from mothtrap.reader import run\n"),
        ("monitor/bad.py", "from mothtrap.report import text"),
        ("rules/bad.py", "from mothtrap import cli"),
        ("rules/bad.py", "from ..core import rule"),
        ("rules/bad.py", "import mothtrap"),
        ("odd/bad.py", "import mothtrap.core"),
        ("examples/bad.py", "import mothtrap"),
    ],
)
def test_layering_check_sees_a_planted_import(tmp_path: Path, file: str, text: str) -> None:
    plant(tmp_path, file, text)
    assert len(layering_offences(tmp_path)) == 1


def test_layering_check_allows_what_it_should(tmp_path: Path) -> None:
    plant(tmp_path, "report/good.py", "import rich\nfrom mothtrap.core import errors\n")
    plant(tmp_path, "core/good.py", "import os\nimport numpy.typing\n")
    assert layering_offences(tmp_path) == []


def test_every_package_has_a_layer() -> None:
    folders = {path.name for path in SOURCE.iterdir() if any(path.glob("*.py"))}
    assert folders - {SOURCE.name} <= LAYERS.keys() | {PROGRAMS}


def test_frameworks_stay_in_their_own_files() -> None:
    assert framework_offences(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("capture/bad.py", "import torch.nn"),
        ("adapters/keras.py", "from torch import nn"),
        ("session/torch.py", "import torch"),
        ("statistics/numpy.py", "def f():\n    import jax\n"),
    ],
)
def test_framework_check_sees_a_planted_import(tmp_path: Path, file: str, text: str) -> None:
    plant(tmp_path, file, text)
    assert len(framework_offences(tmp_path)) == 1


def test_framework_check_allows_its_own_files(tmp_path: Path) -> None:
    plant(tmp_path, "adapters/torch/modules.py", "import torch")
    plant(tmp_path, "statistics/torch.py", "import torch")
    assert framework_offences(tmp_path) == []


def test_nothing_unpickles() -> None:
    assert pickle_offences(SOURCE) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "import torch\ntorch.load('x')",
        "import torch as t\nt.load('x')",
        "from torch import serialization as s\ns.load('x')",
        "import numpy as np\nnp.load('x', None, True)",
        "import importlib\nimportlib.import_module('pickle')",
        "__import__('_pickle')",
        "from multiprocessing import Pipe",
        "import multiprocessing as mp\nmp.Queue()",
        "import numpy\nnumpy.save('x', [], allow_pickle=True)",
        "from torch import load",
        "import pandas\npandas.read_pickle('x')",
        "import shelve",
        "def f(text):\n    return eval(text)",
        "def f(text):\n    return compile('x' + text, '', 'exec')",
    ],
)
def test_pickle_check_sees_a_planted_use(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "store/bad.py", text)
    assert len(pickle_offences(tmp_path)) == 1


def test_pickle_check_allows_what_it_should(tmp_path: Path) -> None:
    text = "import re\nre.compile('x')\nexec('pass')\nmodel.eval()\nsafetensors.torch.load(b'')\n"
    text += (
        "import importlib\nimportlib.import_module('json')\nimport torch as t\nt.save([], 'x')\n"
    )
    plant(tmp_path, "store/good.py", text)
    assert pickle_offences(tmp_path) == []


def test_adapters_are_reached_through_their_protocol() -> None:
    assert handle_offences(SOURCE) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(handle):\n    handle.tracer.live = False",
        "from typing import Any\ndef f(handle: Any) -> None: ...",
        "from typing import Any\nclass A:\n    def f(self):\n        self._handles: list[Any] = []",
    ],
)
def test_protocol_check_sees_a_planted_use(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "session/bad.py", text)
    plant(tmp_path, "adapters/torch/good.py", text)
    assert len(handle_offences(tmp_path)) == 1


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["src", "tests"])
def test_files_are_short(folder: Path) -> None:
    assert length_offences(folder) == []


def test_length_check_sees_a_long_file(tmp_path: Path) -> None:
    plant(tmp_path, "core/bad.py", "x = 1\n" * (MAX_LINES + 1))
    plant(tmp_path, "core/good.py", "x = 1\n" * MAX_LINES)
    assert len(length_offences(tmp_path)) == 1


def test_all_lists_are_sorted_and_true() -> None:
    assert export_offences(SOURCE) == []


@pytest.mark.parametrize("text", ["__all__ = ['a']\n", "a = b = 1\n__all__ = ['b', 'a']\n"])
def test_export_check_sees_a_false_list(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "core/bad.py", text)
    assert len(export_offences(tmp_path)) == 1


def test_public_names_can_be_reached() -> None:
    package = importlib.import_module(PACKAGE)
    for name in package.__all__:
        assert getattr(package, name) is not None


def _loaded_after(statement: str, unwanted: set[str]) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()} & unwanted


def test_import_loads_no_framework_and_no_pyarrow() -> None:
    assert _loaded_after("import mothtrap", FRAMEWORKS | {"pyarrow", "rich", "click"}) == set()


def test_import_check_sees_what_is_loaded() -> None:
    assert _loaded_after("import pyarrow", FRAMEWORKS | {"pyarrow"}) == {"pyarrow"}


def _processor_s(*arguments: str) -> float:
    """Return the CPU seconds of a Python process, the minimum of several: robust to load."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


def test_import_takes_under_100_ms() -> None:
    assert _processor_s("-c", "import mothtrap") < 0.1


def test_help_takes_under_300_ms() -> None:
    assert _processor_s("-m", "mothtrap", "--help") < 0.3


def test_processor_time_is_measured() -> None:
    assert _processor_s("-c", "import numpy, pyarrow") > _processor_s("-c", "pass")


def plant(source: Path, file: str, text: str) -> None:
    path = source / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
