"""The guide shows what its commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.harness.running import MOTHTRAP, environment, observed, run

GUIDE = Path(__file__).parents[2] / "docs" / "guide-nan.md"
BLOCK = re.compile(r"`(\w+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)


def test_the_guide_leads_to_the_line_and_the_sample(tmp_path: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    scripts = dict(BLOCK.findall(text))
    assert set(scripts) == {"model.py", "train.py"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
    # Several threads: a forked process must not wait for those of its parent.
    threads = environment(OMP_NUM_THREADS="2")
    runs = tmp_path / "runs"
    watched = run(observed(["train.py"], runs_dir=runs, name="sensor"), cwd=tmp_path, env=threads)
    assert watched.returncode == 0
    alert = next(line for line in watched.stderr.splitlines() if "NUM004" in line)
    assert alert in text
    command = [*MOTHTRAP, "replay", "sensor", "--step", "216", "--runs-dir", runs]
    again = run([*command, "--format", "json"], cwd=tmp_path, env=threads)
    result = json.loads(again.stdout)
    assert result["match"]
    assert result["location"] == "model.py:13"
    assert result["rows"] == [27]
    assert f"first bad: {result['operation']} in Classifier" in text
