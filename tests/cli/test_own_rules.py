"""Custom rules under `mothtrap run`, and messages that must not appear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, Outcome, run

RULES = '''
import mothtrap

NEEDS = [mothtrap.Need(kinds=("weight",), statistics=("l2",))]

@mothtrap.rule("ZZZ901", severity="error", needs=NEEDS)
def heavy_weight(window: mothtrap.Window, *, limit: float = 0.1):
    """A weight is heavy."""
    norms = window.matrix("weight", "l2")
    if norms is None:
        raise mothtrap.NotEnoughData("no weight was captured")
    for place, tensor in enumerate(norms.tensors):
        if (norms.values_ST[:, place] > limit).any():
            yield mothtrap.Found(step=0, message=f"above {limit}", layers=(tensor.name,))
'''
SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def mothtrap(*args: str, cwd: Path) -> Outcome:
    return run([*MOTHTRAP, *args], cwd=cwd)


def findings(cwd: Path, run: str) -> list[dict]:
    shown = mothtrap("show", run, "--format", "json", "--all", cwd=cwd)
    record = json.loads(shown.stdout)
    assert record.get("tool_errors", []) == []
    return [f for f in record["findings"] if f["code"] == "ZZZ901"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_rules.py").write_text(RULES)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_a_rule_of_a_file_judges_the_training(folder: Path) -> None:
    done = mothtrap("run", "--name", "a", "--rules", "my_rules.py", "train.py", cwd=folder)
    assert done.returncode == 0
    assert "ZZZ901 heavy weight at step 0" in done.stderr
    [found] = findings(folder, "a")
    assert found["severity"] == "error"
    assert found["layers"][0] == "0.weight"


def test_settings_set_thresholds_severities_and_silence_of_layers(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text(
        'rule-files = ["my_rules.py"]\n'
        "[severity]\nZZZ = 'warning'\n"
        '[per-layer-ignores]\n"0.*" = ["ZZZ901"]\n'
        "[rules.ZZZ901]\nlimit = 0.2\n"
    )
    assert mothtrap("run", "--name", "b", "train.py", cwd=folder).returncode == 0
    [found] = findings(folder, "b")
    assert (found["severity"], found["message"]) == ("warning", "above 0.2")
    assert found["layers"]
    assert not any(layer.startswith("0.") for layer in found["layers"])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", ["--rules", "gone.py"], "cannot read the rule file"),
        ("", ["--rules", "notes.txt"], "its name must end in .py"),
        ("[severity]\nNOPE = 'info'\n", [], "severity contains 'NOPE', but no rule code begins"),
        ("[severity]\nGRD = 'loud'\n", [], "severity.GRD cannot be 'loud'"),
        ("[per-layer-ignores]\n'a.*' = ['NOPE']\n", [], "per_layer_ignores.a.* contains 'NOPE'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_script_starts(
    folder: Path, text: str, options: list[str], message: str
) -> None:
    (folder / "mothtrap.toml").write_text(text)
    (folder / "train.py").write_text("print('started')\n")
    (folder / "notes.txt").write_text("x = 1\n")
    done = mothtrap("run", *options, "train.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


WRONG = """
import mothtrap

LOSS = [mothtrap.Need(scalars=("loss",))]

@mothtrap.rule("ZZZ801", needs=LOSS)
class Raises(mothtrap.Rule):
    def check(self, window):
        yield mothtrap.Found(step=0, message="never told")
        raise RuntimeError("planted")

@mothtrap.rule("ZZZ802", needs=LOSS)
def endless(window):
    while True:
        yield mothtrap.Found(step=0, message="again")

@mothtrap.rule("ZZZ803", needs=LOSS)
def exits(window):
    raise SystemExit(3)

@mothtrap.rule("ZZZ804", needs=LOSS)
def interrupts(window):
    raise KeyboardInterrupt

@mothtrap.rule("ZZZ805", needs=LOSS)
def nan_step(window):
    return mothtrap.Found(step=float("nan"), message="odd")

@mothtrap.rule("ZZZ806", needs=LOSS)
class WrongSeverity(mothtrap.Rule):
    def check(self, window):
        return [self.finding(window, severity="fatal", step=0, message="odd")]

@mothtrap.rule("ZZZ807", severity="fatal")
def severe(window):
    return []

@mothtrap.rule("ZZZ808")
class Named(mothtrap.Rule):
    name = "another"

    def check(self, window):
        return []

@mothtrap.rule("ZZZ809", needs=[mothtrap.Need(kind=("weight",))])
def unknown_key(window):
    return []

@mothtrap.rule("ZZZ810", needs=LOSS)
def text(window):
    return "something is wrong"

@mothtrap.rule("ZZZ811", needs=LOSS)
def writes(window):
    window.scalars("loss")[0].values_S[:] = 0
"""
GOOD = RULES.replace("ZZZ901", "ZZZ999").replace("heavy_weight", "above_all")


def test_whatever_one_rule_does_the_others_go_on_and_the_verdict_says_so_first(
    folder: Path,
) -> None:
    (folder / "my_rules.py").write_text(WRONG + GOOD.replace("import mothtrap", ""))
    done = mothtrap("run", "--name", "a", "--rules", "my_rules.py", "train.py", cwd=folder)
    assert done.returncode == 0
    codes = [f"ZZZ{number}" for number in range(801, 812)]
    for code in codes:
        said = [line for line in done.stderr.splitlines() if f"rule {code} " in line]
        assert sum(line.startswith("mothtrap: ") for line in said) == 1, (code, said)
        assert f"{folder}/my_rules.py:" in said[0]
    assert "bug in mothtrap" not in done.stderr
    record = json.loads(mothtrap("show", "a", "--format", "json", "--all", cwd=folder).stdout)
    assert record["verdict"].startswith("11 rules were switched off: ZZZ801 raises, ")
    states = {rule["code"]: rule["state"] for rule in record["rules"]}
    assert [code for code, state in states.items() if state == "rule_failed"] == codes
    assert (states["ZZZ999"], states["NUM001"]) == ("error", "ok")
    assert "11 rules were switched off" in mothtrap("ls", cwd=folder).stdout
    shown = mothtrap("show", "a", cwd=folder).stdout
    assert shown.index("11 rules were switched off") < shown.index("1 error")


def test_a_stored_run_is_judged_by_the_rules_that_can_be(folder: Path) -> None:
    assert mothtrap("run", "--name", "a", "train.py", cwd=folder).returncode == 0
    (folder / "my_rules.py").write_text(WRONG)
    options = ("--rules", "my_rules.py", "--format", "json")
    record = json.loads(mothtrap("analyze", "a", *options, cwd=folder).stdout)
    states = [rule["state"] for rule in record["rules"] if rule["code"].startswith("ZZZ8")]
    assert states == ["rule_failed"] * 11
    assert record["verdict"].startswith("11 rules were switched off: ")
    assert "The other rules found nothing wrong in 5 steps" in record["verdict"]


def test_a_file_that_cannot_be_read_leaves_all_other_rules_in_force(folder: Path) -> None:
    (folder / "my_rules.py").write_text("def broken(:\n    pass\n")
    done = mothtrap("run", "--name", "a", "--rules", "my_rules.py", "train.py", cwd=folder)
    assert done.returncode == 0
    assert f"file of {folder}/my_rules.py:1 is left out: it cannot be read: Syntax" in done.stderr
    record = json.loads(mothtrap("show", "a", "--format", "json", "--all", cwd=folder).stdout)
    assert record["verdict"].startswith("1 rule was switched off: my_rules.py:1 rules (")
    assert "The other rules found nothing wrong in 5 steps" in record["verdict"]
