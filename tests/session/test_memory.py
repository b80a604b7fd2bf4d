"""While nothing can be written, a job grows by the configured amount and keeps training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.harness.running import PYTHON, environment, run

from mothtrap.core.facts.captures import Dropped
from mothtrap.reader.run import open_run

SCRIPT = Path(__file__).parent / "hung_writer.py"
QUEUE_MB = 8
BOUND_MB = 6 * QUEUE_MB
"""Two queues, one of which thinned steps may fill twice, copies, and what is computed from them
(docs/promises.md); the sixth is room for the memory of Python itself.
"""


def trained(folder: Path, writer: str, queue_mb: float) -> dict[str, float]:
    command = [*PYTHON, SCRIPT, writer, str(queue_mb)]
    outcome = run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    assert outcome.returncode == 0, outcome.stderr
    found: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("writer", ["thread", pytest.param("process", marks=pytest.mark.full)])
def test_memory_is_held_below_the_bound_while_nothing_can_be_written(
    writer: str, tmp_path: Path
) -> None:
    told = trained(tmp_path, writer, QUEUE_MB)
    assert told["captured_mb"] > 4 * BOUND_MB
    assert told["grown_mb"] < BOUND_MB
    stored = open_run(tmp_path / "runs" / "hung")
    assert stored.damage == ()
    assert len(stored.scalars("loss")[0]) == told["steps"], "a loss is recorded whatever gives way"
    assert "tensors" in {fact.what for fact in stored.observations(Dropped)}


@pytest.mark.full
def test_with_more_memory_the_same_training_grows_by_more(tmp_path: Path) -> None:
    """The counterpart: the measurement would reveal a queue without a bound."""
    assert trained(tmp_path, "thread", 512)["grown_mb"] > 2 * BOUND_MB
