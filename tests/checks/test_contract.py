"""Layers and inputs that are saved in a file of invariants, and compared later."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.checks.given import Given, table
from tests.checks.test_command import checked

from mothtrap.checks.check import result_of
from mothtrap.checks.data.inputs_changed import InputsChanged
from mothtrap.checks.subject import Array, Subject
from mothtrap.core import invariants
from mothtrap.core.contracts import Input, Layer
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.invariants import Constant

LAYER = Layer(name="head", type="Linear", parameters=66, trained=True, output=(2,))


def compared(x: Array, *expected: Input) -> CheckResult:
    return result_of(InputsChanged(expected=expected), Subject(datasets=(Given(x),)), 0)


def learned(x: Array) -> Input:
    [found] = compared(x).learned
    assert isinstance(found, Input)
    return found


def test_a_file_holds_entries_and_invariants_of_runs(tmp_path: Path) -> None:
    file = str(tmp_path / "invariants.toml")
    entry = learned(table()[0])
    Path(file).write_text(invariants.text([Constant(of="lr")], ["good"]))
    invariants.save_contract(file, [LAYER, entry], "checked")
    assert invariants.read(file) == (Constant(of="lr"),)
    assert invariants.read_contract(file) == (LAYER, entry)
    assert invariants.read_file(file).learned_from == ("good", "checked")


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (lambda x: x.astype(np.float64), "error", "is float64; it was float32"),
        (lambda x: x[:, :4], "error", "shape (4,); it was (6,)"),
        (lambda x: np.where(x > 2, np.nan, x).astype(np.float32), "error", "NaN or infinite"),
        (lambda x: x * 255, "warning", "it ranged from"),
    ],
    ids=["type", "shape", "not finite", "range"],
)
def test_inputs_that_change_are_named(change, severity: str, text: str) -> None:  # type: ignore[no-untyped-def]
    x, _ = table()
    [found] = compared(change(x), learned(x)).found
    assert found.severity == severity
    assert text in found.message


def test_other_rows_of_the_same_data_are_no_fault() -> None:
    made = compared(table(seed=1)[0], learned(table()[0]))
    assert made.passed
    assert not made.found


def test_an_entry_that_is_no_entry_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "invariants.toml"
    file.write_text('version = 1\n[[invariant]]\nkind = "layer"\nnam = "head"\n')
    with pytest.raises(Exception, match="is not a file of invariants"):
        invariants.read_file(str(file))


def test_a_script_is_compared_with_its_saved_layers_and_inputs(tmp_path: Path) -> None:
    file = str(tmp_path / "saved.toml")
    options = ("--select", "PRE5,PRE3", "--save-invariants", file)
    saved = checked(tmp_path, "contract.py", options=options)
    assert "invariants: 4 in" in saved.stderr
    names = {one.name for one in invariants.read_contract(file) if isinstance(one, Layer)}
    assert names == {"0", "1", "2"}
    options = ("--select", "PRE502,PRE305", "--invariants", file, "--name", "again")
    changed = checked(tmp_path, "contract.py", "--width", "8", "--unit", "255", options=options)
    told = " ".join(changed.stderr.split())
    assert changed.returncode == 1, changed.stderr
    assert "layer 0 has 56 parameters, not 112" in told
    assert "input 0 of train ranges from" in told


def test_entries_are_sentences() -> None:
    assert LAYER.sentence == "layer head is a Linear with outputs of 2 and 66 parameters"
    assert msgspec.to_builtins(LAYER)["kind"] == "layer"
