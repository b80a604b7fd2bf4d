"""Files around the package meet their promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FAULTY = """
import torch
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    loss = torch.nn.functional.cross_entropy(net(x).softmax(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _steps_of_the_action() -> dict[str, dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    return {step["name"]: step for step in action["runs"]["steps"]}


@pytest.mark.full
def test_the_action_reports_the_findings_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)
    steps = _steps_of_the_action()
    given = {"COMMAND": "train.py", "FAIL_ON": "error", "SARIF": "found.sarif"}
    environment = {
        **os.environ,
        **given,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    codes = []
    for name in ("Run the training", "Report"):
        assert set(steps[name]["env"]) <= set(given)
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", steps[name]["run"]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        codes.append(ran.returncode)
    assert codes == [0, 1]
    assert "::error" in ran.stdout
    found = json.loads((tmp_path / "found.sarif").read_text())
    assert "STR701" in {result["ruleId"] for result in found["runs"][0]["results"]}
    assert (tmp_path / "output").read_text() == "sarif=found.sarif\n"


def test_the_citation_names_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_hooks_of_commits_run_what_lint_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text()
    for hook in hooks:
        module = hook["entry"].split(" -m ")[1].split()[0]
        assert f"-m {module}" in makefile
