"""A distribution that was captured at few of many steps can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reader.runs import raw
from tests.web.conftest import Site, Watched
from tests.web.deep_runs import counts
from tests.web.made_runs import MadeRun

from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store.worker_log import WorkerLog

STEPS = 500
CAPTURED = 200
COLORED = """(canvas) => {
    const { width, height } = canvas;
    const data = new Uint32Array(
        canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    let found = 0;
    for (let x = 1; x < width; x += 1) {
        let differs = false;
        for (let y = 0; y < height; y += 1) differs ||= data[y * width + x] !== data[y * width];
        found += differs;
    }
    return found / (devicePixelRatio || 1);
}"""


def write(folder: Path) -> None:
    """Write a run whose gradient has a norm at every step, and exponents at one."""
    name = "exponents(gradient:fc.weight)"
    infos = (
        TensorInfo(kind="gradient", name="fc.weight", shape=(30, 50), dtype="float32"),
        TensorInfo(kind="metric", name=name, shape=(2, 64), dtype="int64"),
    )
    log = WorkerLog(folder)
    for step in range(STEPS):
        summary_TF = np.full((1, WIDTH), np.nan)
        summary_TF[0, COLUMN["count"]], summary_TF[0, COLUMN["l2"]] = 1500, 2.0
        log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=1e9 + step,
                    tensor_T=np.array([0], np.uint32),
                    summary_TF=summary_TF,
                    scalars=(Scalar(name="loss", of="train.py:4 SGD", value=1.0),),
                    defined=tuple(enumerate(infos)) if step == 0 else (),
                    raw=(raw((1, counts(1))),) if step == CAPTURED else (),
                )
            ]
        )
    log.close()


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    runs = tmp_path_factory.mktemp("sparse") / "runs"
    run = MadeRun(runs / "sparse", created_s=1.0)
    write(run.folder)
    run.find()
    run.end(closes_worker=False)
    served = Site(runs)
    served.start()
    yield served
    served.stop()


def test_a_captured_step_is_wide_enough_to_be_seen(browser: Any, sparse: Site) -> None:
    """Of 500 steps with six histograms, each was once a line of two pixels."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    seen = Watched(context.new_page(), sparse.origin)
    seen.page.goto(sparse.url("#/tensors?run=sparse&tensor=gradient:fc.weight"))
    canvas = seen.page.locator(".heat canvas")
    canvas.wait_for()
    seen.page.wait_for_function(f"({COLORED})(document.querySelector('.heat canvas')) > 0")
    assert 6 <= canvas.evaluate(COLORED) <= 10
    context.close()
    seen.assert_quiet()
