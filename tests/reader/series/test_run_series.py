from __future__ import annotations

import numpy as np
import pytest
from tests.reader.runs import DEAD_PID, closing, info, raw, write_worker
from tests.store.records import record

from mothtrap.core.errors import StepUnavailableError
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "x"
    values = [np.arange(6, dtype=np.float32).reshape(2, 3) + step for step in range(4)]
    items = [record(step, raw=(raw((1, value)),)) for step, value in enumerate(values)]
    items[3] = record(3, raw=(raw((1, values[3]), (2, values[3][:1])),))
    items.append(record(4, raw=(raw((2, values[0])),)))
    write_worker(layout.create_run(folder, info(pid=DEAD_PID)), *items, closing(5))
    return open_run(folder)


def test_a_series_is_taken_for_the_array_of_its_values(run: Run) -> None:
    (loss,) = run.scalars("loss")
    expected = [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert list(loss) == expected
    assert (loss[0], loss[-1], loss[1:3].tolist()) == (1.0, 1 / 5, expected[1:3])
    assert loss[loss.steps_S > 2].tolist() == expected[3:]
    assert np.allclose(np.log(loss), np.log(expected))
    assert np.asarray(loss, np.float32).dtype == np.float32
    assert np.asarray(loss) is loss.values_S
    changed = np.array(loss)
    changed[0] = 7
    assert loss[0] == 1.0
    assert dict(zip(loss.steps_S.tolist(), loss, strict=True))[4] == 1 / 5


def test_series_become_those_of_pandas_by_step(run: Run) -> None:
    pytest.importorskip("pandas")
    (loss,) = run.scalars("loss")
    history = run.tensor("gradient:layer1").history("l2")
    (merged,) = run.scalars("loss", worker="merged")
    for series, name in ((loss, "loss:main"), (history, "l2:gradient:layer1"), (merged, loss.of)):
        found = series.to_pandas()
        assert found.index.name == "step"
        assert found.loc[3] == series[3]
        assert found.name.endswith(name)


def test_kept_values_become_one_labelled_array(run: Run) -> None:
    pytest.importorskip("xarray")
    found = run.tensor("gradient:layer1").to_xarray()
    assert found.dims == ("step", "dim_0", "dim_1")
    assert found.sel(step=2).values.tolist() == run.tensor("gradient:layer1").at(2).tolist()
    assert (found.name, found.attrs, found.dtype) == ("layer1", {"kind": "gradient"}, np.float32)
    with pytest.raises(StepUnavailableError, match="no values of gradient:layer0 were captured"):
        run.tensor("gradient:layer0").to_xarray()
    with pytest.raises(ValueError, match="values of 2 shapes"):
        run.tensor("gradient:layer2").to_xarray()
