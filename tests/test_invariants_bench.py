"""Creation and maintenance of the invariants that come with mothtrap."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from bench import invariants as bench
from bench.runs_of_programs import Outcome, Program
from tests.cli.stored_run import store_run

from mothtrap.core.invariants import Range, read


def outcome(name: str) -> Outcome:
    return Outcome(program=Program(script=Path(f"{name}.py"), seed=0), record={"findings": []})


def test_a_program_with_too_few_steps_teaches_nothing_and_is_not_named(tmp_path: Path) -> None:
    for name, steps in (("cnn", 40), ("gan", 30), ("short", 5)):
        store_run(tmp_path / f"{name}-0", steps=steps)
    written = bench.learned([outcome(name) for name in ("cnn", "gan", "short")], tmp_path)
    assert 'learned_from = ["cnn", "gan"]' in written
    (tmp_path / "x.toml").write_text(written)
    assert Range(of="loss", at_least=0.0, at_most=10.0) in read(str(tmp_path / "x.toml"))


def test_only_programs_without_a_fault_teach() -> None:
    names = {program.name for program in bench.healthy_programs(0)}
    assert {"gan-0", "healthy_sparse_relu-0"} <= names
    assert not {"missing_zero_grad-0", "_common-0"} & names
    assert {program.healthy for program in bench.twins(0)} == {True}


@pytest.mark.parametrize(("loss", "steps"), [(1.0, []), (math.nan, [0])])
def test_a_run_that_breaks_what_comes_with_mothtrap_is_found(
    loss: float, steps: list[int], tmp_path: Path
) -> None:
    store_run(tmp_path / "x", steps=40, first_loss=loss)
    assert [finding.step for finding in bench.broken("x", tmp_path)] == steps
