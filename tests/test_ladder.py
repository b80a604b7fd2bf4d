"""The ladder of faults: the criteria for damage and for a hit, and one rung of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from bench import ladder
from bench.ladder import FAMILIES, Family, Rung


def rung(size: float, *roots: str, errors: tuple[str, ...] = ()) -> Rung:
    named = tuple(("warning", name) for name in roots)
    return Rung(family=FAMILIES[0], name="lr 2", damage=size, roots=named, errors=errors)


def test_the_ladder_has_38_families_of_six_strengths() -> None:
    assert len(FAMILIES) == len({family.option for family in FAMILIES}) == 38
    assert {len(family.strengths) for family in FAMILIES} == {6}


def test_damage_is_measured_in_deviations_of_healthy_runs() -> None:
    healthy = [0.9, 0.92, 0.88, 0.9]
    assert ladder.damage(0.9, healthy, sinks=True) == 0
    assert ladder.damage(0.8, healthy, sinks=True) == pytest.approx(6.12, abs=0.01)
    assert ladder.damage(0.8, healthy, sinks=False) == 0  # a loss that is better
    assert ladder.damage(math.nan, healthy, sinks=True) == math.inf
    still = [1.0, 1.0]  # a program that never varies
    assert ladder.damage(0.5, still, sinks=True) == pytest.approx(250)


def test_only_great_damage_must_be_named() -> None:
    found = [rung(5.0, "learning_rate_too_high"), rung(3.0, "overfit"), rung(1.0)]
    text, met = ladder.totals(found)
    assert text.startswith("above 2 standard deviations: named 1 of 2")
    assert not met
    assert ladder.totals(found[:1])[1]


def test_errors_where_there_is_no_damage_are_counted() -> None:
    text, met = ladder.totals([rung(0.1, errors=("overfit",)), rung(0.2)])
    assert "errors in 1 of 2" in text
    assert not met


def test_what_is_in_the_results_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strengths = FAMILIES[0].strengths
    kept = {"score": 0.5, "roots": [["error", "learning_rate_too_high"]], "errors": []}
    results = {
        "healthy": {"classify": [0.9, 0.91]},
        "rungs": {f"classify lr {one:g}": {**kept, "trouble": ""} for one in strengths},
    }
    file = tmp_path / "ladder.json"
    file.write_text(json.dumps(results))
    monkeypatch.setattr(ladder, "run", lambda *_: pytest.fail("it was run again"))
    assert ladder.main(["--only", "lr", "--results", str(file)]) == 0
    assert "named 6 of 6" in capsys.readouterr().out


@pytest.mark.full
def test_a_rung_is_run_and_kept(tmp_path: Path) -> None:
    family = next(one for one in FAMILIES if one.option == "eval-inputs")
    last = Family(
        program=family.program, option=family.option, strengths=(255,), rules=family.rules
    )
    results = {"healthy": {family.program: [0.95, 0.96]}, "rungs": {}}
    ladder.fill(results, last, tmp_path / "ladder.json")
    [kept] = results["rungs"].values()
    assert ["error", "train_eval_shift"] in kept["roots"]
    assert json.loads((tmp_path / "ladder.json").read_text()) == results
