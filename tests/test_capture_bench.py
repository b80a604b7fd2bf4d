"""The capture benchmark: its arithmetic, its table, and a small run of it."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from bench import capture as bench
from bench.capturing import figures, floors, ours, processes, table
from bench.capturing.jobs import Job
from bench.capturing.pairing import Shape, Sides, follow_memory, measure
from bench.capturing.processors import Clock
from bench.capturing.settings import FLOOR, FLOORS, MODELS, PEERS, SETTINGS, STEPS
from bench.models import gpt, gpt30m
from bench.peers.base import Attached, train
from torch.nn import functional
from torch.optim import optimizer

ROOT = Path(__file__).parents[1]
ENDLESS = {"most_s": 60.0, "most_gb": 1.0}
LINE = {"kind": "pairs", "model": "mlp", "setting": "default", "by": "mothtrap", "machine": "m"}


def small(**changes: object) -> Job:
    job = {
        "kind": "pairs",
        "model": "mlp",
        "setting": "default",
        "by": "mothtrap",
        "folder": "",
        "threads": 1,
        "pairs": 3,
        "steps": 4,
        "warm_up": 3,
        **ENDLESS,
        **changes,
    }
    return Job(**job)


def measured(plain_s: list[list[float]], watched_s: list[list[float]]) -> dict[str, object]:
    return {
        "plain_s": plain_s,
        "watched_s": watched_s,
        "plain_cpu_s": [sum(steps) / len(steps) for steps in plain_s],
        "watched_cpu_s": [2 * sum(steps) / len(steps) for steps in watched_s],
        "own_s": [0.001] * len(plain_s),
        "pairs": [len(plain_s)],
        "bytes_per_step": 2500.0,
        "peak_mb": 7.0,
    }


def test_a_quantile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(200, 0, -1)]
    assert figures.quantile(values, 0.99) == 198
    assert figures.quantile(values[:99], 0.99) == 200
    assert figures.quantile([3.0], 0.99) == 3
    with pytest.raises(ValueError, match="no values"):
        figures.quantile([], 0.99)


def test_an_interval_holds_the_median_as_often_as_it_says() -> None:
    draws = torch.randn(200, 60, generator=torch.Generator().manual_seed(0)).tolist()
    ends = [figures.interval(figures.median_of(values), [60]) for values in draws[:40]]
    held = sum(low <= 0 <= high for low, high in ends)
    assert 35 <= held <= 40
    low, high = figures.interval(figures.median_of([5.0] * 60), [60])
    assert (low, high) == (5, 5)


def test_an_interval_is_as_wide_as_processes_lie_apart() -> None:
    values = [1.0] * 50 + [2.0] * 50 + [3.0] * 50
    assert figures.interval(figures.median_of(values), [50, 50, 50]) == (1, 3)
    assert figures.interval(figures.median_of(values), [150]) == (2, 2)


def test_what_processes_measured_is_one_line() -> None:
    first, second = measured([[0.1]] * 3, [[0.11]] * 3), measured([[0.2]], [[0.26]])
    joined = figures.joined([first, {**second, "bytes_per_step": 1500.0, "peak_mb": 9.0}])
    told = figures.of_pairs(joined)
    assert (told["pairs"], told["processes"]) == (4, 2)
    assert told["ratio"] == pytest.approx([1.1, 1.1, 1.3])
    assert (told["kB_per_step"], told["peak_mb"]) == (2.0, 9.0)


def test_a_ratio_is_taken_inside_each_pair() -> None:
    """A machine that slows down slows both sides: separate medians would give 0.2."""
    plain_s = [[0.1], [0.2], [1.0], [1.0], [10.0]]
    told = figures.of_pairs(measured(plain_s, [[0.11], [0.22], [1.1], [1.1], [0.1]]))
    assert told["ratio"][0] == pytest.approx(1.1)
    assert told["added_ms"][0] == pytest.approx(20.0)
    assert told["cpu_ratio"][0] == pytest.approx(2.2)
    assert (told["own_ms"], told["kB_per_step"], told["pairs"]) == (1.0, 2.5, 5)


def test_the_p99_is_that_of_single_steps() -> None:
    steps = [[0.001] * 9 + [0.002]] * 9
    told = figures.of_p99(measured([[0.001] * 10] * 10, [*steps, [0.001] * 8 + [0.01] * 2]))
    assert (told["steps"], told["plain_p99_ms"], told["watched_p99_ms"]) == (100, 1.0, 10.0)
    assert told["p99_ratio"][0] == pytest.approx(10)


def test_growth_begins_after_the_first_tenth() -> None:
    resident = [*([500.0] * 10), *([600.0] * 10), *([650.0] * 70), *([700.0] * 10)]
    told = figures.of_memory({"resident_mb": resident, "peak_mb": 1.0, "bytes_per_step": 1.0})
    assert (told["first_mb"], told["settled_mb"], told["growth_mb"]) == (500, 600, 100)


def test_the_table_has_every_line_once_and_says_what_could_not_be_done() -> None:
    told = figures.of_pairs(measured([[0.1]] * 3, [[0.11]] * 3))
    lines = [
        {**LINE, "setting": "everything", "by": "wandb", "version": "1", "cannot": "no | hooks"},
        {**LINE, "failed": "an earlier try"},
        {**LINE, **told, "note": "as it is"},
    ]
    text = table.tables(lines)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 4
    assert "1.100 [1.100, 1.100]" in rows[2]
    assert "wandb 1 | cannot: no / hooks" in rows[3]
    assert "- mothtrap, default: as it is" in text
    assert "earlier" not in text


def test_other_machines_have_tables_of_their_own() -> None:
    lines = [{**LINE, "failed": "x"}, {**LINE, "machine": "another", "failed": "y"}]
    text = table.tables(lines)
    assert text.index("failed: x") < text.index("another.") < text.index("failed: y")


def test_what_stands_around_the_markers_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.put_between(page, "new")
    table.put_between(page, "newer")
    expected = f"before\n{table.BEGIN}\n\nnewer\n\n{table.END}\nafter\n"
    assert page.read_text() == expected
    for broken in ("", table.END + table.BEGIN, f"{table.BEGIN}{table.END}{table.BEGIN}"):
        page.write_text(broken)
        with pytest.raises(ValueError, match="wanted"):
            table.put_between(page, "newest")
        assert page.read_text() == broken


def test_the_page_has_its_markers() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert text.index(table.BEGIN) < text.index(table.END)


def test_sides_take_turns_and_steps_before_the_measured_ones_are_left_out(tmp_path: Path) -> None:
    made: list[str] = []
    sides = Sides(plain=lambda: made.append("p"), watched=lambda: made.append("w"), folder=tmp_path)
    told = measure(sides, Shape(pairs=2, steps=2, warm_up=3, **ENDLESS), 1)
    assert "".join(made) == "www" + "www" + "ppp" + "ppp" + "www"
    assert [len(steps) for steps in told["plain_s"] + told["watched_s"]] == [2, 2, 2, 2]


def test_time_and_disk_end_a_line_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(2000))
    sides = Sides(plain=lambda: None, watched=lambda: None, folder=tmp_path)
    for limits in ({"most_s": 0.0, "most_gb": 1.0}, {"most_s": 60.0, "most_gb": 1e-6}):
        told = measure(sides, Shape(pairs=9, steps=1, warm_up=0, **limits), 1)
        assert len(told["plain_s"]) == 3


def test_work_beside_the_training_is_counted_apart() -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(range(1000))

    clock, thread = Clock(), threading.Thread(target=work)
    began_s, training_s, beside_s = time.process_time(), clock.training_s(), clock.beside_s()
    thread.start()
    while time.process_time() - began_s < 0.3:
        time.sleep(0.01)
    spent = clock.training_s() - training_s, clock.beside_s() - beside_s
    stop.set()
    thread.join()
    assert spent[1] > 0.2 > spent[0]


def test_memory_of_a_long_run_is_followed(tmp_path: Path) -> None:
    kept: list[mmap.mmap] = []

    def grow() -> None:  # in new memory: a list of bytes may reuse an earlier address
        piece = mmap.mmap(-1, 100_000)
        piece.write(b"x" * 100_000)
        kept.append(piece)

    sides = Sides(plain=lambda: None, watched=grow, folder=tmp_path)
    told = figures.of_memory(follow_memory(sides, 400))
    assert 25 < told["growth_mb"] < 45
    assert told["peak_mb"] > 30


def test_plain_steps_have_nothing_of_ours_in_them(tmp_path: Path) -> None:
    before = functional.cross_entropy, torch.nn.Module._call_impl, torch.autograd.backward
    sides, _ = ours.watch(small(folder=str(tmp_path)))
    watched = functional.cross_entropy, torch.nn.Module._call_impl, torch.autograd.backward
    assert not set(before) & set(watched)
    with sides.unwatched():
        within = functional.cross_entropy, torch.nn.Module._call_impl, torch.autograd.backward
        assert within == before
        assert not optimizer._global_optimizer_pre_hooks
        told_s = sides.own_s()
        sides.plain()
        assert sides.own_s() == told_s
    assert functional.cross_entropy is watched[0]
    assert len(optimizer._global_optimizer_pre_hooks) == 1
    sides.watched()
    assert sides.own_s() > told_s
    sides.close()
    assert functional.cross_entropy is before[0]
    assert not optimizer._global_optimizer_pre_hooks


@pytest.mark.parametrize("name", sorted({name for names in FLOORS.values() for name in names}))
def test_floors_leave_the_training_as_it_is(name: str, tmp_path: Path) -> None:
    sides, _ = floors.sides(small(by=FLOOR + name, setting="everything", folder=str(tmp_path)))
    losses = [sides.watched().item() for _ in range(6)]
    sides.settle()
    sides.close()
    plain, _ = floors.sides(small(by=FLOOR + "nothing", folder=str(tmp_path)))
    assert losses == [plain.plain().item() for _ in range(6)]
    if name == "copy and write":
        assert (tmp_path / "copy").stat().st_size == 6 * 2 * 4 * 8970


@pytest.mark.parametrize("model", [gpt, gpt30m])
def test_models_are_as_large_as_they_say(model: object) -> None:
    made, _, _ = model.training()
    assert sum(p.numel() for p in made.parameters()) == model.PARAMETERS


def test_every_peer_says_what_it_does_in_each_setting() -> None:
    for peer in PEERS:
        assert (ROOT / "bench" / "peers" / f"{peer}.txt").exists()
        script = ROOT / "bench" / "peers" / f"{peer}_capture.py"
        names = {"__name__": "script", "__file__": str(script)}
        exec(compile(script.read_text(), script, "exec"), names)
        assert set(names["CAN"]) | set(names["CANNOT"]) == set(SETTINGS)
        assert not set(names["CAN"]) & set(names["CANNOT"])


def test_all_lines_are_asked_for_when_nothing_is_said() -> None:
    asked = list(bench.jobs(bench.parsed([])))
    floors_of_a_model = sum(len(names) for names in FLOORS.values())
    assert len(asked) == len(MODELS) * (len(SETTINGS) * (1 + len(PEERS)) + floors_of_a_model)
    assert {job.pairs for job in asked} == {200}
    p99 = list(bench.jobs(bench.parsed(["--p99", "--model", "gpt"])))
    assert [(job.setting, job.pairs * job.steps) for job in p99] == [("default", 2000)]
    long = list(bench.jobs(bench.parsed(["--long", "10000", "--model", "mlp"])))
    assert [(job.by, job.steps) for job in long] == [
        ("mothtrap", 10000),
        (FLOOR + "nothing", 10000),
    ]


def test_a_peer_that_is_not_there_has_a_line_that_says_so(tmp_path: Path) -> None:
    told = processes.line(small(by="smdebug"), tmp_path)
    assert "make peers" in told["failed"]
    assert "failed: not installed" in table.row(told)


def test_a_process_that_fails_has_a_line_with_its_last_words(tmp_path: Path) -> None:
    told = processes.line(small(setting="no such setting"), tmp_path)
    assert told["failed"] == "KeyError: 'no such setting'"


@pytest.mark.parametrize("setting", ["plain", "default"])
def test_a_peer_watches_a_whole_program_or_not(setting: str, tmp_path: Path) -> None:
    losses: list[float] = []
    watched: list[str] = []

    def attach(model: object, optimizer: object, setting: str, folder: Path) -> Attached:
        watched.append(setting)
        return Attached(after_step=lambda loss: losses.append(loss.item()))

    train(attach, "mlp", setting, 3, tmp_path / "kept")
    assert (watched, len(losses)) == (([], 0) if setting == "plain" else (["default"], 3))


@pytest.mark.full
def test_a_peer_is_measured_as_it_says(tmp_path: Path) -> None:
    """The peer is TensorBoard, which is installed for the tests; it reports what it cannot do."""
    script = ROOT / "bench" / "peers" / "tensorboard_capture.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def told(setting: str) -> dict[str, object]:
        job = small(by="tensorboard", setting=setting, folder=str(tmp_path / "run"))
        command = [sys.executable, str(script), job.text()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    everything = told("everything")
    assert [len(steps) for steps in everything["watched_s"]] == [4, 4, 4]
    assert everything["bytes_per_step"] > 10_000
    assert "cannot" in told("idle")


@pytest.mark.full
def test_the_command_measures_both_sides_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept" / "capture.jsonl"
    page.write_text(f"before\n{table.BEGIN}\n{table.END}\n")
    monkeypatch.setitem(STEPS, "mlp", 4)
    words = ["--model", "mlp", "--setting", "default", "--by", "mothtrap", "--by", "floors"]
    limits = ["--pairs", "6", "--processes", "2", "--warm-up", "5", "--threads", "1"]
    bench.main([*words, *limits, "--keep", str(kept), "--write", str(page)])
    lines = [json.loads(text) for text in kept.read_text().splitlines()]
    assert [line["by"] for line in lines] == ["mothtrap", "floor: norm"]
    assert [(line["pairs"], line["processes"]) for line in lines] == [(6, 2), (6, 2)]
    assert lines[0]["own_ms"] > 0
    assert lines[0]["kB_per_step"] > 0
    assert lines[0]["watched_cpu_ms"] > lines[0]["plain_cpu_ms"] > 0
    printed, text = capsys.readouterr().out, page.read_text()
    for line in lines:
        assert table.row(line) in printed
        assert table.row(line) in text
