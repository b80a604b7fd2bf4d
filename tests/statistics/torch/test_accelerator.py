"""Statistics of a device's tensors equal those of any tensor, and may arrive late."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
import torch
from tests.statistics.oracle import VALUE_STATISTICS, assert_close, expected
from tests.statistics.torch.copy_stream import SlowCopyStream, host_memory

from mothtrap.core.errors import UnknownNameError
from mothtrap.statistics.summary import COLUMN, EMPTY
from mothtrap.statistics.torch import pieces, summarize
from mothtrap.statistics.torch.accelerator import Accelerator
from mothtrap.statistics.torch.copy_streams import DeviceFailed


class Device:
    """An accelerator over the CPU, and its lane."""

    def __init__(self, *, fused: bool = False) -> None:
        self.copy_stream = SlowCopyStream(torch.device("cpu"))
        self.accelerator = Accelerator(
            "cpu",
            lambda _: self.copy_stream,
            host_memory,
            lambda: self.copy_stream.capturing,
            fused=fused,
        )


@pytest.fixture
def device() -> Device:
    return Device()


def all_kinds() -> list[torch.Tensor]:
    spoilt = torch.randn(300, generator=torch.Generator().manual_seed(1))
    spoilt[[3, 200]], spoilt[7] = torch.nan, -torch.inf
    return [
        torch.arange(-5.0, 6.0).reshape(11, 1),
        spoilt.reshape(3, 100).T,
        spoilt.bfloat16(),
        spoilt.half(),
        spoilt.double() * 1e200,
        torch.full((4,), torch.nan),
        torch.tensor(3.0),
        torch.tensor([True, False, True]),
        torch.tensor([-3, 2**40]),
        torch.tensor([0, 250], dtype=torch.uint8),
        torch.complex(spoilt, spoilt),
        torch.eye(3).to_sparse(),
        torch.tensor([448.0, 0.5]).to(torch.float8_e4m3fn),
        torch.empty(0),
    ]


@pytest.mark.parametrize("statistics", [VALUE_STATISTICS, ("l2", "nan", "inf"), ("zero",)])
def test_rows_are_those_of_summarize(device: Device, statistics: tuple[str, ...]) -> None:
    tensors = all_kinds()
    pending = device.accelerator.reduce(tensors, statistics)
    device.accelerator.send()
    device.copy_stream.let_go()
    wanted = summarize(tensors, statistics)
    for row, want in zip(pending.rows(), wanted, strict=True):
        asked = ~np.isnan(row)
        np.testing.assert_allclose(row[asked], want[asked], rtol=1e-6, atol=1e-9)
        assert set(np.flatnonzero(asked)) <= set(np.flatnonzero(~np.isnan(want)))
    for name in ("count", *(s for s in statistics if s in COLUMN)):
        np.testing.assert_allclose(
            pending.rows()[:, COLUMN[name]], wanted[:, COLUMN[name]], rtol=1e-6, atol=1e-12
        )


def test_a_tensor_in_several_blocks_is_one_row(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "BLOCK", 64)
    values = torch.linspace(-1, 4, 200)
    values[150] = torch.nan
    pending = device.accelerator.reduce([values, torch.ones(3)], VALUE_STATISTICS)
    device.accelerator.send()
    device.copy_stream.let_go()
    assert_close(pending.rows()[0], expected(values.numpy()))
    assert_close(pending.rows()[1], expected(np.ones(3)))


def test_values_are_those_at_the_moment_of_asking(device: Device) -> None:
    weight = torch.tensor([3.0, 4.0])
    copy = host_memory(8).numpy()
    pending = device.accelerator.reduce([weight], ("l2",))
    device.accelerator.copy_bytes(weight, copy)
    weight.zero_()  # a step of an optimizer
    device.accelerator.send()
    device.copy_stream.let_go()
    assert pending.rows()[0, COLUMN["l2"]] == 5.0
    assert copy.view(np.float32).tolist() == [3.0, 4.0]


def test_all_of_a_step_is_one_load(device: Device) -> None:
    asked = [device.accelerator.reduce([torch.full((2,), float(i))], ("max",)) for i in range(9)]
    device.accelerator.copy_bytes(torch.ones(3), host_memory(12).numpy())
    assert device.copy_stream.sent == 0
    device.accelerator.send()
    assert device.copy_stream.sent == 1
    device.copy_stream.let_go()
    assert [p.rows()[0, COLUMN["max"]] for p in asked] == list(range(9))
    device.accelerator.send()  # nothing was requested since
    assert device.copy_stream.sent == 1


def test_nothing_waits_until_someone_wants_the_rows(device: Device) -> None:
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    flight = device.accelerator.send()
    assert not pending.has_arrived()
    assert not flight.has_arrived()
    found: list[float] = []
    reader = threading.Thread(target=lambda: found.append(pending.rows()[0, COLUMN["max"]]))
    reader.start()
    assert not found
    device.copy_stream.let_go()
    reader.join()
    assert found == [1.0]
    assert pending.has_arrived()
    assert flight.has_arrived()
    flight.wait()


def test_whoever_cannot_wait_for_the_end_of_the_step_has_it_sent(device: Device) -> None:
    device.copy_stream.at_once = True
    pending = device.accelerator.reduce([torch.full((2,), torch.nan)], ("nan",))
    assert pending.rows()[0, COLUMN["nan"]] == 2.0
    assert device.copy_stream.sent == 1


def test_a_number_comes_before_what_was_asked_for_earlier(device: Device) -> None:
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    loss = device.accelerator.bring(torch.tensor([[0.25]], requires_grad=True))
    device.copy_stream.let_go()
    assert float(loss) == 0.25
    assert not pending.has_arrived()


def test_nothing_of_the_users_is_held(device: Device) -> None:
    own = torch.arange(64.0)
    before = sys.getrefcount(own)
    device.accelerator.reduce([own], VALUE_STATISTICS)
    device.accelerator.copy_bytes(own, host_memory(256).numpy())
    assert sys.getrefcount(own) == before


def test_what_has_arrived_holds_nothing_on_the_device(device: Device) -> None:
    device.accelerator.reduce([torch.ones(2)], ("max",))
    device.accelerator.copy_bytes(torch.ones(3), host_memory(12).numpy())
    device.accelerator.send()
    [(load, _)] = device.copy_stream.waiting
    device.accelerator.send()
    assert load.copies  # in transit
    device.copy_stream.let_go()
    device.accelerator.send()
    assert not load.copies
    assert not load.numbers


def test_a_device_that_fails_lets_everybody_go(device: Device) -> None:
    early = device.accelerator.reduce([torch.ones(2)], ("max",))
    device.accelerator.send()
    device.copy_stream.failing = "device-side assert triggered"
    late = device.accelerator.reduce([torch.ones(2)], ("max",))
    flight = device.accelerator.send()
    assert not flight.has_arrived()
    device.copy_stream.let_go()
    with pytest.raises(DeviceFailed, match="device-side assert"):
        late.rows()
    with pytest.raises(DeviceFailed, match="device-side assert"):
        flight.wait()
    assert early.rows()[0, COLUMN["max"]] == 1.0  # was transferred before


def test_what_is_on_its_way_when_the_device_fails_never_comes(device: Device) -> None:
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    flight = device.accelerator.send()
    device.copy_stream.failing = "device-side assert triggered"
    device.accelerator.settle()
    with pytest.raises(DeviceFailed, match="device-side assert"):
        pending.rows()
    with pytest.raises(DeviceFailed, match="device-side assert"):
        flight.wait()


def test_at_the_end_everything_is_waited_for(device: Device) -> None:
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    device.accelerator.settle()
    assert pending.has_arrived()


def test_while_a_graph_is_captured_nothing_is_sent(device: Device) -> None:
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    device.copy_stream.capturing = True
    assert device.accelerator.is_capturing()
    device.accelerator.send()
    assert device.copy_stream.sent == 0
    device.copy_stream.capturing = False
    device.accelerator.send()
    device.copy_stream.let_go()
    assert pending.rows()[0, COLUMN["max"]] == 1.0


def test_what_a_capture_holds_back_has_not_arrived(device: Device) -> None:
    copy = host_memory(8).numpy()
    device.accelerator.copy_bytes(torch.tensor([3.0, 4.0]), copy)
    device.copy_stream.capturing = True
    flight = device.accelerator.send()
    assert not flight.has_arrived()
    device.copy_stream.capturing = False
    device.accelerator.send()
    device.copy_stream.let_go()
    assert flight.has_arrived()
    assert copy.view(np.float32).tolist() == [3.0, 4.0]


def test_what_a_capture_holds_back_to_the_end_never_comes(device: Device) -> None:
    device.accelerator.reduce([torch.ones(2)], ("max",))
    device.copy_stream.capturing = True
    flight = device.accelerator.send()
    device.accelerator.settle()
    with pytest.raises(DeviceFailed, match="capturing"):
        flight.wait()


def test_a_number_asked_for_in_a_capture_never_comes(device: Device) -> None:
    device.copy_stream.capturing = True
    norm = device.accelerator.bring(torch.ones(()))
    assert device.copy_stream.sent == 0
    with pytest.raises(DeviceFailed, match="capturing a graph"):
        float(norm)


def test_what_is_read_in_inference_mode_arrives_outside_of_it(device: Device) -> None:
    copy = host_memory(12).numpy()
    with torch.inference_mode():
        output = torch.full((3,), 2.0)
        pending = device.accelerator.reduce([output], ("max",))
        device.accelerator.copy_bytes(output, copy)
        device.accelerator.send()
    device.copy_stream.let_go()
    assert pending.rows()[0, COLUMN["max"]] == 2.0
    assert copy.view(np.float32).tolist() == [2.0, 2.0, 2.0]


def test_every_stream_that_was_used_is_waited_for(device: Device) -> None:
    device.accelerator.reduce([torch.ones(2)], ("max",))
    device.copy_stream.current = "another"
    device.accelerator.reduce([torch.ones(2)], ("max",))
    device.accelerator.send()
    [(load, _)] = device.copy_stream.waiting
    assert list(load.streams) == ["main", "another"]


def test_tensors_of_other_kinds_are_reduced_at_once() -> None:
    device = Accelerator("cuda", SlowCopyStream, host_memory, lambda: False, fused=False)
    pending = device.reduce([torch.ones(4), torch.empty(3, device="meta")], ("l2",))
    assert pending.has_arrived()
    assert pending.rows()[0, COLUMN["l2"]] == 2.0
    np.testing.assert_array_equal(pending.rows()[1], EMPTY)
    assert not device.holds([torch.ones(1)])
    assert not device.holds([])


def test_without_a_kernel_operations_do_it_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(fused=True)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "mothtrap.statistics.torch.multi_tensor", raising=False)
    pending = device.accelerator.reduce([torch.ones(2)], ("max",))
    assert "triton" in device.accelerator.slow_because
    device.accelerator.send()
    device.copy_stream.let_go()
    assert pending.rows()[0, COLUMN["max"]] == 1.0


def test_an_unknown_statistic_is_named(device: Device) -> None:
    with pytest.raises(UnknownNameError, match="mean"):
        device.accelerator.reduce([torch.ones(2)], ("maen",))
