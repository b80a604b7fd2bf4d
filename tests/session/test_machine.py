"""The machine is sampled over time beside a job, and read while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session.children import wait_until

from mothtrap.report.machine import machine_rows
from mothtrap.session import machine
from mothtrap.session.machine import MachineSampler, Rates, sample
from mothtrap.store.machine_log import MachineLog, MachineReader, Reading


def test_a_sample_has_what_the_machine_does(tmp_path: Path) -> None:
    rates = Rates()
    sample(tmp_path, rates, [])
    found = {reading.name: reading for reading in sample(tmp_path, rates, [])}
    assert {"cpu_percent", "memory_used", "memory_percent", "disk_free"} <= found.keys()
    assert 0 <= found["memory_percent"].value <= 100
    assert found["disk_free"].value > 0


def test_rates_are_of_counters_that_grow() -> None:
    rates = Rates()
    assert list(rates.of("disk_read", 10.0, 100.0)) == []
    assert list(rates.of("disk_read", 12.0, 300.0)) == [Reading(12.0, "disk_read", "", 100.0)]
    assert list(rates.of("disk_read", 13.0, 5.0)) == [], "the counter began anew"


def test_what_is_sampled_is_read_while_it_is_written_and_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "EVERY_S", 0.001)
    said: list[str] = []
    sampler, reader = MachineSampler(tmp_path, said.append), MachineReader(tmp_path)

    def seen() -> bool:
        reader.poll()
        return ("cpu_percent", "") in reader.series

    wait_until(seen)
    sampler.close()
    reader.poll()
    again = MachineReader(tmp_path)
    again.poll()
    for key, series in again.series.items():
        assert (series.times_s == reader.series[key].times_s).all()
        assert len(series.times_s) == len(series.values)
    assert said == []


def test_a_sampler_that_fails_says_so_once_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no sensors")

    monkeypatch.setattr(machine, "EVERY_S", 0.001)
    monkeypatch.setattr(machine, "sample", broken)
    said: list[str] = []
    sampler = MachineSampler(tmp_path, said.append)
    wait_until(lambda: bool(said))
    sampler.close()
    assert said == ["mothtrap: stopped sampling the machine (RuntimeError)"]


def test_numbers_are_summed_up_in_words(tmp_path: Path) -> None:
    log = MachineLog(tmp_path)
    log.append([Reading(float(t), "cpu_percent", "", float(t)) for t in range(101)])
    log.append([Reading(1.0, "network_sent", "", 2.5e6), Reading(1.0, "gpu_percent", "1", 80.0)])
    log.append([Reading(1.0, "something_new", "", 1.0)])
    log.close()
    reader = MachineReader(tmp_path)
    reader.poll()
    cpu, network, gpu = machine_rows(reader.series)
    assert (cpu.what, cpu.last, cpu.median, cpu.p95, cpu.most) == (
        *("CPU", "100 %", "50 %"),
        *("95 %", "100 %"),
    )
    assert (network.what, network.last) == ("network sent", "2.5 MB/s")
    assert (gpu.what, gpu.last) == ("GPU 1", "80 %")


def test_a_run_without_samples_has_no_rows(tmp_path: Path) -> None:
    reader = MachineReader(tmp_path)
    reader.poll()
    assert machine_rows(reader.series) == ()
