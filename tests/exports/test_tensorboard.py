"""TensorBoard itself reads the exported data, value by value."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.exports.stored import (
    START_S,
    block,
    evaluation,
    gradient,
    info,
    loss,
    sampled,
    train_step,
    weight,
)

from mothtrap.core.errors import MissingExtraError, OutputExistsError, UnknownNameError
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.records import Scalar
from mothtrap.core.runs import RunEnd
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.exports import Choice, export_run, follow_run, tensorboard
from mothtrap.exports._buckets import BUCKETS, buckets, power_buckets
from mothtrap.reader.run import Run, open_run
from mothtrap.statistics.distribution import quantiles
from mothtrap.statistics.exponents import count_exponents
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


@pytest.fixture(scope="module", params=["python", "data server"])
def provider(
    request: pytest.FixtureRequest, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The two ways in which TensorBoard loads files: its Python loader and its data server."""
    folder = tmp_path_factory.mktemp("logs") / "digits"
    written = export_run(run, "tensorboard", folder)
    assert written.left_out == ()
    assert written.counts["histograms"] == 2 * 3 + 2 * 2
    if request.param == "data server":
        yield from served(folder, tmp_path_factory.mktemp("server") / "port")
    else:
        yield loaded(folder)


def loaded(folder: Path) -> Any:
    """Load the files with TensorBoard in this process."""
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    files = EventMultiplexer(tensor_size_guidance={"scalars": 0, "histograms": 0})
    files.AddRunsFromDirectory(str(folder))
    files.Reload()
    return MultiplexerDataProvider(files, str(folder))


def served(folder: Path, port_file: Path) -> Iterator[Any]:
    """Serve a folder with TensorBoard's default loader, which reads files in its own process."""
    from tensorboard.context import RequestContext
    from tensorboard.data.server_ingester import ExistingServerDataIngester, get_server_binary
    from tensorboard.util.grpc_util import ChannelCredsType

    options = ("--reload=once", "--port=0", "--samples-per-plugin=scalars=all,histograms=all")
    with subprocess.Popen(
        [get_server_binary().path, f"--logdir={folder}", f"--port-file={port_file}", *options]
    ) as server:
        try:
            port = eventually(lambda: port_file.exists() and int(port_file.read_text() or 0))
            files = ExistingServerDataIngester(
                f"localhost:{port}", channel_creds_type=ChannelCredsType.LOCAL
            )
            found = files.data_provider
            asked = {"experiment_id": "x", "plugin_name": "histograms"}
            eventually(lambda: len(found.list_tensors(RequestContext(), **asked)) == 2)
            yield found
        finally:
            server.kill()


def eventually(ask: Callable[[], Any]) -> Any:
    """Repeat a query until it is true, because another process is still working on it."""
    pause = threading.Event()
    for _ in range(1000):
        if answer := ask():
            return answer
        pause.wait(0.02)
    raise AssertionError("the data server did not come up")


def series(provider: Any, kind: str, worker: str, tag: str) -> Any:
    from tensorboard.context import RequestContext
    from tensorboard.data.provider import RunTagFilter

    read = provider.read_scalars if kind == "scalars" else provider.read_tensors
    found = read(
        RequestContext(),
        experiment_id="x",
        plugin_name=kind,
        downsample=1000,
        run_tag_filter=RunTagFilter(runs=[worker], tags=[tag]),
    )
    return found[worker][tag]


def test_each_worker_is_a_run_with_all_tags(provider: Any) -> None:
    from tensorboard.context import RequestContext

    listed = provider.list_scalars(RequestContext(), experiment_id="x", plugin_name="scalars")
    assert set(listed) == {"w0", "w1"}
    common = {"loss/main", "micro_batches", "own_s", "step_s", "gradient_l2/head.weight"}
    assert common <= set(listed["w1"])
    assert [t for w in listed.values() for t in w if t.startswith("eval")] == ["eval/loss/main"]
    assert not [tag for tag in listed["w0"] if tag.startswith("weight_l2")]


def test_scalars_have_their_steps_times_and_values_also_nan(provider: Any) -> None:
    points = series(provider, "scalars", "w0", "loss/main")
    assert [p.step for p in points] == [0, 1, 2, 3, 4, 5]
    assert [p.wall_time for p in points] == [START_S + (step + 1) / 2 for step in range(6)]
    values = np.array([p.value for p in points])
    wanted = np.array([loss(step) for step in range(6)], np.float32)
    assert values.astype(np.float32).tobytes() == wanted.tobytes()
    assert len(series(provider, "scalars", "w1", "loss/main")) == 4


def test_evaluations_are_tagged_apart(provider: Any) -> None:
    points = series(provider, "scalars", "w0", "eval/loss/main")
    assert [(p.step, p.value) for p in points] == [(6, 0.25)]  # at the train step; one per step


def test_the_loss_of_an_evaluation_is_that_of_all_its_batches(tmp_path: Path) -> None:
    """The loss of the first batch was once exported as that of the evaluation."""
    log = WorkerLog(layout.claim_worker(layout.create_run(tmp_path / "x", info("x", 1)))[1])
    about = {"site": "a.py:20", "operation": "mse_loss", "calls": 2, "rows": 100, "number": 0}
    whole = Evaluation(
        step=1,
        mode=Mode.EVAL,
        value=0.33,
        first=0.33,
        best=0.33,
        best_step=1,
        **about,  # type: ignore[arg-type]
    )
    batches = [
        replace(evaluation(1, place), scalars=(Scalar("loss", "a.py:20", value),))
        for place, value in enumerate((0.4, 0.2))
    ]
    log.append([train_step(0, first=True), *batches])
    log.append([replace(train_step(1), observations=(whole,))])
    log.close()
    export_run(open_run(tmp_path / "x"), "tensorboard", tmp_path / "logs")
    points = series(loaded(tmp_path / "logs"), "scalars", "w0", "eval/loss")
    assert [(point.step, round(point.value, 6)) for point in points] == [(1, 0.33)]


def test_an_edit_of_the_script_keeps_the_tags_of_losses(tmp_path: Path) -> None:
    """The series of a loss is named by its line; only a second one needs that."""
    attempt = layout.create_run(tmp_path / "x", info("x", 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    began = tuple(
        LossSeries(step=0, series=f"a b.py:{line} SGD", location="a b.py:3", optimizers=("SGD",))
        for line in (4, 9)
    )
    scalars = tuple(Scalar("loss", fact.series, 1.0) for fact in began)
    first = replace(train_step(0, first=True), scalars=scalars, observations=began)
    tests = replace(evaluation(0, 0), scalars=(Scalar("loss", "a b.py:20", 2.0),))
    log.append([first, tests, replace(train_step(1), scalars=scalars)])
    log.close()
    export_run(open_run(tmp_path / "x"), "tensorboard", tmp_path / "logs")
    shown = loaded(tmp_path / "logs")
    found = {
        tag: series(shown, "scalars", "w0", tag)[0].value
        for tag in ("loss/SGD", "loss/a b.py:9 SGD", "eval/loss")
    }
    assert found == {"loss/SGD": 1.0, "loss/a b.py:9 SGD": 1.0, "eval/loss": 2.0}
    choice = Choice(begin=1)
    export_run(open_run(tmp_path / "x"), "tensorboard", tmp_path / "part", choice)
    assert series(loaded(tmp_path / "part"), "scalars", "w0", "loss/SGD")[0].step == 1


def test_steps_that_were_not_watched_have_their_loss_and_learning_rate(tmp_path: Path) -> None:
    export_run(sampled(tmp_path), "tensorboard", tmp_path / "logs")
    shown = loaded(tmp_path / "logs")
    losses = series(shown, "scalars", "w0", "loss/main")
    assert [(p.step, p.value) for p in losses] == [(0, 1.0), (1, 0.75), (3, 0.25), (4, 0.125)]
    assert [p.step for p in series(shown, "scalars", "w0", "lr/SGD")] == [0, 1, 2, 3]


def test_findings_are_texts_at_their_step(provider: Any) -> None:
    [point] = series(provider, "text", "w0", "findings/NUM001")
    assert point.step == 3
    assert point.numpy.tolist() == b"**error** the loss is NaN"


def test_counts_that_say_nothing_are_left_out(provider: Any) -> None:
    assert [p.step for p in series(provider, "scalars", "w0", "gradient_nan/head.weight")] == [4]


def test_statistics_are_scalars(provider: Any) -> None:
    points = series(provider, "scalars", "w0", "gradient_max/head.weight")
    assert [repr(p.value) for p in points] == ["0.0", "1.0", "2.0", "3.0", "nan", "5.0"]


def test_tensors_kept_whole_are_histograms_of_their_finite_elements(provider: Any) -> None:
    points = series(provider, "histograms", "w0", "gradient/head.weight")
    assert [p.step for p in points] == [1, 3, 5]
    assert points[0].numpy.tolist() == buckets(gradient(1).reshape(-1).astype(float)).tolist()
    assert points[1].numpy[:, 2].sum() == 2
    lost = series(provider, "scalars", "w0", "gradient_nonfinite/head.weight")
    assert [p.value for p in lost] == [0, 2, 2]
    bf16 = series(provider, "histograms", "w0", "weight/head.weight")
    assert bf16[1].numpy[0, 0] == weight(3).astype(float).min()


def test_only_what_was_chosen_is_written(run: Run, tmp_path: Path) -> None:
    choice = Choice(tensors="weight:*", begin=1, end=2)
    written = export_run(run, "tensorboard", tmp_path / "logs", choice)
    assert written.counts == {"scalars": 2 * 4, "histograms": 2}


def test_a_value_beyond_float32_is_left_out_and_said(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info("x", 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    scalars = (Scalar("loss", "", 1e300), Scalar("norm", "", float("inf")))
    log.append([replace(train_step(0, first=True), scalars=scalars)])
    log.close()
    written = export_run(open_run(tmp_path / "x"), "tensorboard", tmp_path / "logs")
    assert written.left_out == ("1 values of loss on rank 0 exceed float32, and are omitted",)
    found = series(loaded(tmp_path / "logs"), "scalars", "w0", "norm")
    assert [p.value for p in found] == [float("inf")]


def test_captured_distributions_are_histograms_and_scalars(tmp_path: Path) -> None:
    values = np.array([-3.0, -1e-30, 0.0, 0.5, 0.6, 3.0, 1e30, np.nan])
    found = {"exponents": count_exponents(values), "quantiles": quantiles(values)}
    names = [f"{what}(gradient:head.weight)" for what in found]
    attempt = layout.create_run(tmp_path / "x", info("x", 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    defined = tuple((i, TensorInfo(kind="metric", name=name)) for i, name in enumerate(names))
    raw = (block(*enumerate(found.values())),)
    log.append([replace(train_step(0), defined=defined, raw=raw)])
    log.close()
    export_run(open_run(tmp_path / "x"), "tensorboard", tmp_path / "logs")
    shown = loaded(tmp_path / "logs")
    [point] = series(shown, "histograms", "w0", "gradient_exponents/head.weight")
    assert point.numpy[:, 2].sum() == 6  # all but zero and NaN
    [median] = series(shown, "scalars", "w0", "gradient_quantile_0.5/head.weight")
    assert median.value == 0.5


def test_buckets_of_powers_ascend_and_hold_what_was_counted() -> None:
    values = np.array([-3.0, -1e-30, 0.5, 0.6, 3.0, 1e30])
    found = power_buckets(count_exponents(values))
    assert (np.diff(found[:, :2].reshape(-1)) >= 0).all()
    assert found[found[:, 2] > 0].tolist() == [
        [-4.0, -2.0, 1.0],
        [-(2.0**-39), 0.0, 1.0],
        [0.5, 1.0, 2.0],
        [2.0, 4.0, 1.0],
        [2.0**23, 2.0**24, 1.0],
    ]


def test_powers_that_hold_nothing_do_not_widen_the_picture() -> None:
    """TensorBoard drew gradients of 1e-3 on an axis up to 15,000,000."""
    found = power_buckets(count_exponents(np.array([-1e-3, 0.7, 0.0])))
    assert (found[0, 0], found[-1, 1]) == (-1.0, 1.0)
    assert found[:, 2].sum() == 2
    assert power_buckets(count_exponents(np.zeros(3)))[:, 2].tolist() == [0.0, 0.0]


def test_what_lies_there_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(OutputExistsError, match="mine: it exists; choose another path"):
        export_run(run, "tensorboard", tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "keep"


def test_a_choice_that_leaves_nothing_is_an_error_and_leaves_no_files(
    run: Run, tmp_path: Path
) -> None:
    with pytest.raises(UnknownNameError, match="run digits has 6 steps, and no scalars or histog"):
        export_run(run, "tensorboard", tmp_path / "logs", Choice(begin=100))
    assert list(tmp_path.iterdir()) == []


def test_without_tensorboard_the_extra_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # type: ignore[arg-type]
    with pytest.raises(MissingExtraError, match="pip install 'tensorboard"):
        export_run(run, "tensorboard", tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []


@given(
    arrays(
        np.float64,
        array_shapes(max_dims=1, max_side=50),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_every_finite_value_is_in_one_bucket(values: Any) -> None:
    found = buckets(values)
    assert found.shape == (BUCKETS, 3)
    assert found[:, 2].sum() == values.size
    assert np.isfinite(found).all()
    assert found[0, 0] <= values.min()
    assert found[-1, 1] >= values.max()


def test_event_files_grow_with_the_run_and_equal_those_made_at_its_end(tmp_path: Path) -> None:
    attempt = layout.create_run(
        tmp_path / "x", msgspec.structs.replace(info("x", 1), created_s=time.time())
    )
    _, folder = layout.claim_worker(attempt)
    log = WorkerLog(folder)
    log.append([train_step(0, first=True), train_step(1)])
    sizes: list[int] = []

    def pause() -> None:
        sizes.append(next((tmp_path / "grown" / "w0").iterdir()).stat().st_size)
        if len(sizes) == 1:
            log.append([evaluation(1, 0), train_step(2), train_step(3)])
        else:
            log.append([train_step(4)])
            log.close()
            layout.write_end(attempt, RunEnd(exit_code=0, ended_s=START_S))

    run = open_run(tmp_path / "x")
    grown = tensorboard.follow(run, tmp_path / "grown", Choice(), pause)
    whole = export_run(run, "tensorboard", tmp_path / "whole")
    assert 0 < sizes[0] < sizes[1]
    assert grown == whole
    assert grown.counts["scalars"] > 0
    assert events_of(tmp_path / "grown") == events_of(tmp_path / "whole")
    with pytest.raises(UnknownNameError, match="'parquet' cannot follow"):
        follow_run(run, "parquet", tmp_path / "tables")


def events_of(folder: Path) -> list[tuple[int, str]]:
    """Return step and text of each event, whatever its position in the file."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    [file] = (folder / "w0").iterdir()
    return sorted((event.step, str(event.summary)) for event in EventFileLoader(str(file)).Load())
