"""A class has few public methods: one with more has several responsibilities."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.syntax_trees import files, nodes

SOURCE = Path(__file__).parents[1] / "src" / "mothtrap"
MOST_METHODS = 10
"""Properties are not counted; protocols and test suites have no limit."""
UNBOUND = {"reader/run.py:Run"}
"""The public objects."""
KNOWN = {
    "adapters/keras/checking/forwarding.py:KerasForward": 12,
    "adapters/torch/checking/forwarding.py:RecordedForward": 12,
    "adapters/torch/data/loaders.py:LoaderObserver": 11,
    "adapters/torch/hooks/tracer.py:Tracer": 16,
    "adapters/torch/job/naming.py:NameBook": 12,
    "adapters/torch/losses/backwards.py:LossObserver": 12,
    "adapters/torch/optimization/optimizers.py:OptimizerObserver": 23,
    "adapters/torch/recording/recording.py:Recording": 15,
    "tracing/jobs/adapter_job.py:AdapterJob": 21,  # `core.adapters.Job`
}
"""Classes that have more, and their numbers, which may only decrease."""


def public_methods(node: ast.ClassDef) -> int:
    """Return the number of its own methods; inherited ones count for their class."""
    return sum(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and not each.name.startswith("_")
        and not any("property" in ast.unparse(mark) for mark in each.decorator_list)
        for each in node.body
    )


def large_classes(source: Path) -> dict[str, int]:
    """Return classes with more public methods than permitted, and their numbers."""
    found = {}
    for place, tree in files(source):
        for node in nodes(tree, ast.ClassDef):
            if place.parts[0] == "testing":
                continue
            name, count = f"{place.as_posix()}:{node.name}", public_methods(node)
            is_protocol = any("Protocol" in ast.unparse(base) for base in node.bases)
            if count > MOST_METHODS and not is_protocol and name not in UNBOUND:
                found[name] = count
    return found


def test_classes_are_small_but_for_those_that_are_known() -> None:
    assert large_classes(SOURCE) == KNOWN


def test_the_check_sees_a_large_class(tmp_path: Path) -> None:
    methods = [f"    def f{n}(self): ..." for n in range(MOST_METHODS)]
    small = ["    def _hidden(self): ...", "    @property", "    def p(self): ...", *methods]
    large = [*small, "    async def g(self): ..."]
    for name, head, lines in (
        ("good.py", "class A:", small),
        ("bad.py", "class A:", large),
        ("protocol.py", "class A(Protocol[T]):", large),
    ):
        (tmp_path / name).write_text("\n".join([head, *lines]))
    assert large_classes(tmp_path) == {"bad.py:A": MOST_METHODS + 1}
