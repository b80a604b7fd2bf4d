"""Real jobs of several processes under `mothtrap run`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.harness.programs import FOLDER
from tests.harness.running import MOTHTRAP, TORCHRUN, Outcome, environment, observed, run

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.facts.workers import WorkerPace
from mothtrap.core.findings import Severity
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run


def job(
    folder: Path, program: str, *arguments: str, workers: int = 2, options: tuple[str, ...] = ()
) -> tuple[Outcome, Run]:
    """Run a program under torchrun and mothtrap; return its outcome and the run."""
    script = [TORCHRUN, "--standalone", "--nproc-per-node", str(workers)]
    script += [str(FOLDER / f"{program}.py"), *arguments]
    command = observed([*options, "--", *script], runs_dir=folder, name="job")
    outcome = run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    return outcome, open_run(folder / "job")


def gradients(run: Run, worker: int | str) -> dict[str, TensorInfo]:
    matrix = run.stats("gradient", worker=worker)["l2"]  # type: ignore[arg-type]
    return {tensor.name: tensor for tensor in matrix.tensors}


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.full)])
def test_healthy_data_parallel_training_has_equal_replicas_and_no_finding(
    tmp_path: Path, workers: int
) -> None:
    outcome, run = job(tmp_path, "ddp_variants", "healthy", workers=workers)
    assert outcome.returncode == 0, outcome.stderr
    assert (run.workers, run.steps, run.findings) == (tuple(range(workers)), 10, ())
    assert {rule.code: rule.state for rule in run.rules}.items() >= {
        "DST951": "ok",
        "DST953": "ok",
        "STR711": "ok",
    }.items()
    assert {t.scope for t in gradients(run, 0).values()} == {"replica"}
    digests = run.observations(ReplicaDigests)
    assert len(digests) == 4 * workers  # after steps 0, 1, 3 and 7
    assert len({json.dumps(seen.digests) for seen in digests if seen.step == 7}) == 1
    own = [run.stats("gradient", worker=rank)["l2"].values_ST for rank in range(workers)]
    merged = run.stats("gradient", worker="merged")["l2"].values_ST
    # For identical bits: the memory layout determines the order in which they are summed.
    assert all(np.allclose(merged, each, rtol=1e-6, atol=0) for each in own)
    losses = [run.scalars("loss", worker=rank)[0].values_S for rank in range(workers)]
    job_loss = run.scalars("loss", worker="merged")[0].values_S
    assert np.allclose(job_loss, np.mean(losses, axis=0))
    assert not np.array_equal(losses[0], losses[1])


def test_a_worker_that_drifts_is_named_while_the_job_runs(tmp_path: Path) -> None:
    outcome, run = job(tmp_path, "ddp_variants", "drifting")
    (found,) = run.findings
    assert (found.code, found.workers, found.layers) == ("DST951", (1,), ("2",))
    assert (found.step, found.evidence["last_equal_step"]) == (4, 3)
    assert "DST951 diverging ranks" in outcome.stderr


def test_training_past_the_wrapper_explains_why_the_workers_differ(tmp_path: Path) -> None:
    _, run = job(tmp_path, "ddp_variants", "bypassed")
    by_code = {found.code: found for found in run.findings}
    assert set(by_code) == {"STR711", "DST951"}
    found = by_code["STR711"]
    assert (found.severity, found.step, found.workers) == (Severity.ERROR, 0, (0, 1))
    assert found.location is not None
    assert "ddp_variants.py:" in found.location
    outcome = _show(tmp_path)
    assert outcome["diagnosis"][0]["root"] == found.fingerprint


def test_a_parameter_that_no_loss_uses_is_named_instead_of_the_ranks_it_lets_diverge(
    tmp_path: Path,
) -> None:
    outcome, run = job(tmp_path, "ddp_variants", "unused")
    assert outcome.returncode != 0
    failed = run.observations(ScriptFailed)
    assert {seen.kind for seen in failed} == {"replicas"}
    assert "did not use `0.spare`, so" in failed[0].sentence
    assert "find_unused_parameters=True" in failed[0].fixes[1]
    assert not run.findings


def test_ranks_that_draw_the_same_batches_are_told(tmp_path: Path) -> None:
    outcome, run = job(tmp_path, "ddp_variants", "shared")
    [found] = run.findings
    assert (found.code, found.severity, found.workers) == ("DST953", Severity.WARNING, (0, 1))
    assert (found.step, found.last_step, found.evidence["steps"]) == (0, 7, [0, 1, 3, 7])
    assert "ddp_variants.py:" in (found.location or "")
    assert outcome.stderr.count("DST953 same batches on ranks at step 0") == 1


@pytest.mark.parametrize(
    ("variant", "codes"),
    [
        ("apart", {"DST961"}),
        ("averaged", set()),
        pytest.param("seeded", {"DST951"}, marks=pytest.mark.full),
        pytest.param("local", set(), marks=pytest.mark.full),
    ],
)
def test_ranks_without_a_wrapper(tmp_path: Path, variant: str, codes: set[str]) -> None:
    outcome, run = job(tmp_path, "ranks_without_wrapper", variant)
    assert outcome.returncode == 0, outcome.stderr
    assert {found.code for found in run.findings if found.code.startswith("DST")} == codes


@pytest.mark.parametrize(("variant", "told"), [("alike", []), ("each in its way", [(0, 1)])])
def test_ranks_that_split_the_data(
    tmp_path: Path, variant: str, told: list[tuple[int, ...]]
) -> None:
    outcome, run = job(tmp_path, "ddp_splits", variant)
    assert outcome.returncode == 0, outcome.stderr
    assert [found.workers for found in run.findings if found.code == "DST962"] == told


def test_the_worker_that_the_others_wait_for_is_named(tmp_path: Path) -> None:
    _, run = job(tmp_path, "slow_rank", "slow")
    [found] = [finding for finding in run.findings if finding.code == "DST952"]
    assert (found.severity, found.workers) == (Severity.WARNING, (1,))
    assert found.message.endswith("; most of the difference is in other code of the script")
    assert run.observations(WorkerPace)


def test_rank_0_alone_is_recorded_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('workers = "rank0"\n')
    outcome, run = job(tmp_path, "ddp_variants", "healthy")
    assert (outcome.returncode, run.workers, run.steps) == (0, (0,), 10)


def test_replicas_are_captured_once_if_workers_are_merged(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('workers = "merged"\n')
    outcome, run = job(tmp_path, "ddp_variants", "healthy")
    assert (outcome.returncode, run.workers, run.steps) == (0, (0, 1), 10)
    assert run.stats("gradient", worker=0)["l2"].tensors
    assert not run.stats("gradient", worker=1)["l2"].tensors
    assert run.scalars("loss", worker=1)
    assert all(seen.digests for seen in run.observations(ReplicaDigests))
    assert not run.findings


def test_shards_are_named_and_put_together_exactly(tmp_path: Path) -> None:
    truth, run = _sharded(tmp_path, "fsdp2", workers=2)
    first, second = gradients(run, 0)["0.weight"], gradients(run, 1)["0.weight"]
    assert (first.scope, second.scope) == (
        "shard 1/2 of dim 0 over shards",
        "shard 2/2 of dim 0 over shards",
    )
    assert (first.shape, second.shape, first.global_shape) == ((4, 6), (3, 6), (7, 6))
    assert (first.module, first.module_type) == ("0", "Linear")
    _assert_whole(run, truth)
    whole = run.stats("gradient", "0", worker="merged")["l2"].tensors[0]
    assert (whole.name, whole.shape) == ("0.weight", (7, 6))
    assert run.scalars("loss", worker="merged")[0].values_S[-1] == np.mean(truth["last_losses"])
    count = run.stats("activation", "2", ("count",), worker="merged")["count"]
    assert count.values_ST[0].tolist() == [2 * 8 * 3]  # the batches of both workers


def test_replicas_of_shards_are_counted_once_and_compared_by_shard(tmp_path: Path) -> None:
    truth, run = _sharded(tmp_path, "replicated", workers=4)
    scope = gradients(run, 3)["2.weight"].scope
    assert scope == "replica over replicas; shard 2/2 of dim 0 over shards"
    _assert_whole(run, truth)
    names = {name for seen in run.observations(ReplicaDigests) for name in seen.digests}
    assert "0 (shard 1/2 of dim 0 over shards)" in names
    assert {rule.code: rule.state for rule in run.rules}["DST951"] == "ok"


def test_tensor_parallel_values_bear_their_scope(tmp_path: Path) -> None:
    truth, run = _sharded(tmp_path, "tensor_parallel", workers=2)
    scopes = {name: tensor.scope for name, tensor in gradients(run, 1).items()}
    assert scopes == {
        "0.weight": "shard 2/2 of dim 0 over tp",
        "0.bias": "shard 2/2 of dim 0 over tp",
        "2.weight": "shard 2/2 of dim 1 over tp",
        "2.bias": "replica over tp",
    }
    _assert_whole(run, truth)


def test_a_worker_that_dies_is_named_and_the_steps_of_the_others_stay(tmp_path: Path) -> None:
    attempt = tmp_path / "job" / "1"
    outcome, run = job(tmp_path, "dying_worker", str(attempt))
    assert outcome.returncode != 0
    assert run.end is not None
    assert run.end.lost[0] == 1
    for worker in (0, 1):
        (loss,) = run.scalars("loss", worker=worker)
        assert loss.steps_S.tolist() == list(range(len(loss)))
        assert len(loss) > 10
    assert "rank 1" in _show(tmp_path)["verdict"]


def _sharded(folder: Path, variant: str, *, workers: int) -> tuple[dict, Run]:  # type: ignore[type-arg]
    options = ("--capture", "everything", "--overhead", "0")
    path = folder / "truth.json"
    outcome, run = job(folder, "sharded", variant, str(path), workers=workers, options=options)
    assert outcome.returncode == 0, outcome.stderr
    assert not run.tool_errors
    assert run.findings == ()
    return json.loads(path.read_text()), run


def _assert_whole(run: Run, truth: dict) -> None:  # type: ignore[type-arg]
    """Assert that the merged statistics are those of the whole tensors."""
    matrices = run.stats("gradient", statistics=("l2", "count"), worker="merged")
    norms = matrices["l2"]
    assert norms.present_ST.all()
    for row, wanted in zip(norms.values_ST, truth["gradient_norms"], strict=True):
        found = {t.name: v for t, v in zip(norms.tensors, row.tolist(), strict=True)}
        assert found == pytest.approx(wanted, rel=1e-5)
    sizes = dict(zip(norms.tensors, matrices["count"].values_ST[0].tolist(), strict=True))
    assert sizes == {tensor: math.prod(tensor.shape) for tensor in norms.tensors}


def _show(folder: Path) -> dict:  # type: ignore[type-arg]
    command = [*MOTHTRAP, "show", str(folder / "job"), "--format", "json", "--all"]
    return json.loads(run(command, cwd=folder).stdout)
