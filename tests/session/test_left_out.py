"""A training that continues although its guard skips every step."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import environment, observed, run, show

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    if step >= 30:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
"""


def test_weights_that_no_longer_change_are_an_error_with_their_cause(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = observed([script], runs_dir=tmp_path, name="seen")
    settings = environment(MOTHTRAP_OVERHEAD="0", MOTHTRAP_ON_NONFINITE="skip")
    outcome = run(words, cwd=tmp_path, env=settings)
    assert outcome.returncode == 0, outcome.stderr
    found = {each["code"]: each for each in show(tmp_path / "seen", cwd=tmp_path)["findings"]}
    stands = found["RUN908"]
    assert (stands["severity"], stands["step"]) == ("error", 30)
    assert stands["caused_by"] == ["NUM001"]
