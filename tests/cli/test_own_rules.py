"""Rules of one's own under `mothtrap run`, and what is not to be heard of."""

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
    shown = mothtrap("show", run, "--format", "json", cwd=cwd)
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
        ("", ["--rules", "gone.py"], "no file of rules"),
        ("", ["--rules", "notes.py"], "holds no rule"),
        ("[severity]\nNOPE = 'info'\n", [], "severity holds 'NOPE', which no rule code begins"),
        ("[severity]\nGRD = 'loud'\n", [], "severity.GRD cannot be 'loud'"),
        ("[per-layer-ignores]\n'a.*' = ['NOPE']\n", [], "per_layer_ignores.a.* holds 'NOPE'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_script_starts(
    folder: Path, text: str, options: list[str], message: str
) -> None:
    (folder / "mothtrap.toml").write_text(text)
    (folder / "train.py").write_text("print('started')\n")
    (folder / "notes.py").write_text("x = 1\n")
    done = mothtrap("run", *options, "train.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
