"""Numbers of users and numbers that mothtrap measures never share a name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mothtrap
from mothtrap.core.measured import MEASURED, logged_name

SOURCE = Path(mothtrap.__file__).parent


def read(source: str) -> set[str]:
    """Return the scalar names that a program reads or records with a literal."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = {"scalars": 0, "scalar": 0, "add_scalar": 1, "Scalar": 0}
    found = set()
    for call in calls:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else None
        called = call.func.id if isinstance(call.func, ast.Name) else called
        place = named.get(called or "", 0)
        if called in named and len(call.args) > place:
            name = call.args[place]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(name.value)
    return {name for name in found if "*" not in name}


def test_every_name_that_rules_judge_or_adapters_record_is_a_measured_one() -> None:
    folders = ("rules", "monitor", "capture", "adapters")
    files = [file for folder in folders for file in (SOURCE / folder).rglob("*.py")]
    found = {name for file in files for name in read(file.read_text(encoding="utf-8"))}
    assert {"loss", "gradient_norm", "step_s", "loss_scale"} <= found  # the search works
    assert found <= MEASURED


def test_a_name_that_is_not_declared_would_be_seen() -> None:
    assert read('window.scalars("novel")\nadd_scalar(recorder, "other", "", 1)') == {
        "novel",
        "other",
    }


def test_what_is_called_as_a_measured_number_gets_a_name_of_its_own() -> None:
    assert [logged_name(name) for name in ("accuracy", "loss", "log.loss", "lr")] == [
        "accuracy",
        "log.loss",
        "log.loss",
        "log.lr",
    ]
    with pytest.raises(TypeError, match="a name must be a string, not a int"):
        logged_name(3)  # type: ignore[arg-type]
