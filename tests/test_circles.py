"""No module imports a module that imports it, directly or indirectly."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from tests.syntax_trees import files, nodes
from tests.test_house import PACKAGE, SOURCE, plant


def circle_offences(source: Path) -> list[str]:
    """Return modules that import one another, also indirectly or for type checkers only."""
    return _on_circles(_imports(_trees(source)))


def package_offences(source: Path, of: str) -> list[str]:
    """Return the packages within one that import one another; its own modules count as one."""
    packages: dict[str, set[str]] = {}
    prefix = f"{PACKAGE}.{of}."
    folders = {_dotted(path).rpartition(".")[0] for path, _ in files(source)}

    def package(module: str) -> str:
        return module if module in folders else module.rpartition(".")[0]

    inside = {name: tree for name, tree in _trees(source).items() if name.startswith(prefix)}
    for module, names in _imports(inside).items():
        used = {package(name) for name in names}
        packages.setdefault(package(module), set()).update(used - {package(module)})
    return _on_circles(packages)


def _trees(source: Path) -> dict[str, ast.Module]:
    return {_dotted(path): tree for path, tree in files(source)}


def _imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    return {
        module: {name for name in _modules_named(tree, trees) if name != module}
        for module, tree in trees.items()
    }


def _on_circles(imported: Mapping[str, set[str]]) -> list[str]:
    left = dict(imported)
    while free := [module for module, names in left.items() if not names & left.keys()]:
        for module in free:
            del left[module]  # imports nothing that is on a circle or leads to one
    while used := left.keys() - {name for names in left.values() for name in names}:
        for module in used:
            del left[module]  # leads to a circle, but is not on it
    return [f"on a circle of imports: {', '.join(sorted(left))}"] if left else []


def _dotted(path: Path) -> str:
    parts = [PACKAGE, *path.with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _modules_named(tree: ast.Module, known: Collection[str]) -> Iterator[str]:
    for node in nodes(tree, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    for node in nodes(tree, ast.ImportFrom):
        named = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        modules = {name for name in named if name in known}
        yield from modules - {node.module} or modules


def test_modules_do_not_import_one_another() -> None:
    assert circle_offences(SOURCE) == []


def test_circle_check_sees_aplanted_circle(tmp_path: Path) -> None:
    plant(tmp_path, "core/a.py", "from mothtrap.core import b")
    plant(tmp_path, "core/b.py", "from mothtrap.core.c import x")
    assert circle_offences(tmp_path) == []
    plant(tmp_path, "core/c.py", "if TYPE_CHECKING:\n    from mothtrap.core.a import y\n")
    (offence,) = circle_offences(tmp_path)
    assert offence.endswith("mothtrap.core.a, mothtrap.core.b, mothtrap.core.c")


@pytest.mark.parametrize("of", ["adapters.torch", "reader"])
def test_packages_inside_of_one_do_not_import_one_another(of: str) -> None:
    assert package_offences(SOURCE, of) == []


def test_folders_of_the_torch_adapter_do_not_import_one_another() -> None:
    """A folder is taken together with all folders in it."""
    prefix = f"{PACKAGE}.adapters.torch."
    used: dict[str, set[str]] = {}
    for module, names in _imports(_trees(SOURCE)).items():
        if module.startswith(prefix):
            folder = _folder(module, prefix)
            inside = {_folder(name, prefix) for name in names if name.startswith(prefix)}
            used.setdefault(folder, set()).update(inside - {folder})
    assert _on_circles(used) == []


def _folder(module: str, prefix: str) -> str:
    return module.removeprefix(prefix).partition(".")[0]


def test_package_check_sees_aplanted_circle(tmp_path: Path) -> None:
    plant(tmp_path, "adapters/torch/job/names.py", "import torch")
    plant(tmp_path, "adapters/torch/data/rows.py", "from mothtrap.adapters.torch.job import names")
    plant(tmp_path, "adapters/torch/data/order.py", "import torch")
    assert package_offences(tmp_path, "adapters.torch") == []
    text = "if TYPE_CHECKING:\n    from mothtrap.adapters.torch.data.order import y\n"
    plant(tmp_path, "adapters/torch/job/steps.py", text)
    (offence,) = package_offences(tmp_path, "adapters.torch")
    assert offence.endswith("mothtrap.adapters.torch.data, mothtrap.adapters.torch.job")
