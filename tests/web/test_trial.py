"""A rule that is tried in the page fires where the rule that is written fires."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from tests.web.conftest import Site

from mothtrap.cli import main
from mothtrap.monitor.rule_making import Condition, make_rule
from mothtrap.reader.run import open_run

LOSS = "train/loss:train.py:4 SGD"
NORM = "train/gradient.l2/blocks.1.weight"


def tried(site: Site, run: str, name: str, side: str, limit: object, for_steps: int = 1) -> Any:
    """Return the answer that the page receives."""
    asked = {"run": run, "name": name, "side": side, "limit": limit, "for_steps": for_steps}
    return site.json(f"/api/trial?{urlencode(asked)}")


@pytest.mark.parametrize(
    ("name", "what", "statistic", "side", "limit", "for_steps"),
    [
        (LOSS, "loss", "", "below", 0.5, 1),
        (LOSS, "loss", "", "above", 1.0, 10),
        (LOSS, "loss", "", "above", 1e9, 1),
        (NORM, "gradient:blocks.1.weight", "l2", "above", 5.5, 1),
        (NORM, "gradient:blocks.1.weight", "l2", "above", 5.5, 2),
    ],
)
def test_it_fires_as_the_rule_does(
    site: Site,
    made: Path,
    tmp_path: Path,
    name: str,
    what: str,
    statistic: str,
    side: Any,
    limit: float,
    for_steps: int,
) -> None:
    answer = tried(site, "healthy", name, side, limit, for_steps)
    condition = Condition(
        what=what, statistic=statistic, side=side, limit=limit, for_steps=for_steps
    )
    rule = make_rule(open_run(made / "healthy"), condition, tmp_path / "rules.py")
    first = [finding.step for finding in rule.findings]
    assert [firing["step"] for firing in answer["firings"]][:1] == first
    assert answer["values"] == 120
    assert answer["name"] == rule.name


def test_the_command_that_is_shown_writes_the_rule(
    site: Site, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tried(site, "nan", NORM, "above", 100, 2)
    monkeypatch.chdir(tmp_path)
    words = [*shlex.split(answer["write"])[1:], "--runs-dir", str(made)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert f"would have fired at step {answer['firings'][0]['step']}" in result.output
    written = (tmp_path / "my_rules.py").read_text()
    assert answer["source"].removeprefix("import mothtrap").strip() in written
    assert answer["use"] == "mothtrap run --rules my_rules.py train.py --lr 0.1"


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"name": "train/nothing"}, 404, "there is no curve"),
        ({"side": "beside"}, 400, "`above` or `below`"),
        ({"limit": "much"}, 400, "must be a number"),
        ({"limit": "nan"}, 400, "must be a number"),
        ({"for_steps": "0"}, 400, "1 step or more"),
    ],
)
def test_what_can_be_no_rule_has_a_sentence(
    site: Site, asked: dict[str, str], status: int, words: str
) -> None:
    query = {"run": "nan", "name": LOSS, "side": "above", "limit": "1", "for_steps": "1"} | asked
    answered, _, body = site.ask(f"/api/trial?{urlencode(query)}")
    assert answered == status
    assert words in json.loads(body)["error"]
