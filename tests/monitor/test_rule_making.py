"""A rule made from a condition behaves like other rules, and is tried on the run immediately."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stored_run import store_run

from mothtrap.cli import main
from mothtrap.core.errors import ConfigError, OutputExistsError
from mothtrap.monitor.rule_files import rules_in
from mothtrap.monitor.rule_making import Condition, make_rule, next_code, rule_source
from mothtrap.reader.run import Run, open_run
from mothtrap.testing.windows import series, statistic, window


@pytest.fixture
def run(tmp_path: Path) -> Run:
    store_run(tmp_path / "runs" / "r1", first_loss=5.0)
    return open_run(tmp_path / "runs" / "r1")


def _rule(folder: Path, condition: Condition):  # type: ignore[no-untyped-def]
    _, source = rule_source(condition)
    file = folder / f"made_{condition.code.lower()}.py"
    file.write_text(f"import mothtrap\n{source}")
    (made,) = rules_in(str(file))
    return made()


def test_it_fires_where_a_scalar_stays_beyond_the_limit(tmp_path: Path) -> None:
    rule = _rule(
        tmp_path, Condition(what="loss", side="above", limit=2.0, for_steps=3, code="OWN911")
    )
    (found,) = rule.check(window(series("loss", [1.0, 3.0, 1.0, 3.0, 4.0, 5.0, 1.0])))
    assert (found.step, found.last_step, found.count) == (3, 5, 3)
    assert found.message == "loss is 5, above 2 for 3 steps"
    assert rule.check(window(series("loss", [3.0, 3.0, 1.0, 3.0, 3.0]))) == []


def test_it_fires_for_the_one_tensor_that_is_named(tmp_path: Path) -> None:
    rule = _rule(
        tmp_path,
        Condition(
            what="gradient:head.weight", statistic="l2", side="below", limit=0.5, code="OWN912"
        ),
    )
    seen = window(statistic("gradient", "l2", {"head.weight": [1.0, 0.1], "other": [0.0, 0.0]}))
    (found,) = rule.check(seen)
    assert (found.step, found.layers) == (1, ("head.weight",))


def test_it_is_written_tried_and_added_to(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "mine.py"
    first = make_rule(run, Condition(what="loss", side="above", limit=-1e9, for_steps=2), file)
    assert (first.code, first.name) == ("OWN901", "loss_above_minus_1e09")
    assert [finding.step for finding in first.findings] == [0]
    second = make_rule(run, Condition(what="loss", side="above", limit=1e9), file)
    assert (second.code, second.findings) == ("OWN902", ())
    assert [rule.code for rule in rules_in(str(file))] == ["OWN901", "OWN902"]
    with pytest.raises(OutputExistsError, match="already has a rule loss_above_1e09"):
        make_rule(run, Condition(what="loss", side="above", limit=1e9), file)
    assert next_code((str(file),)) == "OWN903"


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"for_steps": 0}, "1 step or more"),
        ({"limit": float("nan")}, "must be a number"),
        ({"code": "X1"}, "capital letters and three digits"),
        ({"what": "  "}, "is not the name of a scalar"),
        ({"what": "gradient:head"}, "needs a statistic"),
    ],
)
def test_what_can_be_no_condition_is_refused(changed: dict[str, object], match: str) -> None:
    fields: dict[str, object] = {"what": "loss", "side": "above", "limit": 1.0, "code": "OWN901"}
    with pytest.raises(ConfigError, match=match):
        rule_source(Condition(**{**fields, **changed}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "what", ['x"\'""";import os;os.abort()#', "{limit}", "a\\", "gradient:[*]?{x}", "é 1"]
)
def test_hostile_names_are_texts_in_the_rule(tmp_path: Path, what: str) -> None:
    rule = _rule(
        tmp_path, Condition(what=what, statistic="l2", side="above", limit=1.0, code="OWN913")
    )
    name = what.partition(":")[2] if ":" in what else what
    if ":" in what:
        found = rule.check(window(statistic("gradient", "l2", {name: [2.0]})))
    else:
        found = rule.check(window(series(name, [2.0])))
    assert len(found) == 1


def test_the_command_says_where_it_would_have_fired(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["condition", "r1", "loss", "--above", "-1e9"])
    assert done.exit_code == 0, done.output
    assert "my_rules.py: OWN901 loss_above_minus_1e09" in done.output
    assert "would have fired at step 0" in done.output
    assert "mothtrap run --rules my_rules.py" in done.output
    done = CliRunner().invoke(main, ["condition", "r1", "loss"])
    assert done.exit_code == 2
    assert "--above LIMIT or --below LIMIT" in done.output
