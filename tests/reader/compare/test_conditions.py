from __future__ import annotations

from pathlib import Path

from tests.reader.runs import closing, info, write_worker
from tests.store.records import record

from mothtrap.core.config import Config, plain
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.ledger import Ledger, LedgerValue, Source
from mothtrap.reader.compare.conditions import differing_conditions
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout

FACTS: dict[str, dict[str, LedgerValue]] = {
    "random": {"seed.torch": 1, "digest.torch": "aa"},
    "versions": {"torch": "2.13.0", "numpy": "2.4"},
    "sources": {"train.py": "11"},
}


def stored(
    folder: Path,
    name: str,
    *,
    facts: dict[str, dict[str, LedgerValue]] | None = None,
    workers: int = 0,
    rate: float = 0.1,
    source: Source | None = None,
    **changes: object,
) -> Run:
    attempt = layout.create_run(folder / name, info(id=name, **changes))
    seen = (
        LoaderBegan(step=0, loader="loader 1", sampler="shuffled", workers=workers),
        OptimizerFacts(step=0, optimizer="SGD", kind="SGD", learning_rate=rate),
    )
    write_worker(attempt, record(0, observations=seen), closing(1))
    if facts is not None:
        ledger = Ledger(
            created_s=0.0, rank=0, framework="torch", arguments=(), cwd="/", facts=facts
        )
        layout.write_ledger(layout.worker_folder(attempt, 0), ledger)
    if source is not None:
        layout.write_source(attempt, source)
    return open_run(folder / name)


def told(first: Run, second: Run) -> dict[str, tuple[str, str]]:
    return {c.what: (c.first, c.second) for c in differing_conditions(first, second)}


def test_equal_conditions_are_not_told(tmp_path: Path) -> None:
    assert told(stored(tmp_path, "a", facts=FACTS), stored(tmp_path, "b", facts=FACTS)) == {}


def test_facts_of_the_ledger_go_by_section_and_states_of_generators_are_left_out(
    tmp_path: Path,
) -> None:
    other: dict[str, dict[str, LedgerValue]] = {
        "random": {"seed.torch": 2, "digest.torch": "bb"},
        "versions": {"torch": "2.13.0", "scipy": "1.0"},
        "sources": {"train.py": "22"},
    }
    found = told(stored(tmp_path, "a", facts=FACTS), stored(tmp_path, "b", facts=other))
    assert found == {
        "random: seed.torch": ("1", "2"),
        "versions: numpy": ("2.4", ""),
        "versions: scipy": ("", "1.0"),
        "sources: train.py": ("11", "22"),
    }


def test_loaders_optimizers_and_settings_are_told(tmp_path: Path) -> None:
    first = stored(tmp_path, "a")
    config = plain(Config(digests=True, runs_dir="elsewhere"))
    second = stored(tmp_path, "b", workers=2, rate=0.2, config=config)
    assert told(first, second) == {
        "loader 1: workers": ("0", "2"),
        "SGD: learning_rate": ("0.1", "0.2"),
        "setting digests": ("false", "true"),
    }


def test_a_commit_and_what_is_not_committed_are_told(tmp_path: Path) -> None:
    first = stored(tmp_path, "a", source=Source(commit="c1", branch="main"))
    changed = Source(commit="c1", branch="main", changed=("train.py",), diff="+1")
    found = told(first, stored(tmp_path, "b", source=changed))
    assert list(found) == ["sources: uncommitted changes"]
    assert found["sources: uncommitted changes"][1].startswith("train.py ")


def test_installed_packages_that_differ_are_told_once(tmp_path: Path) -> None:
    first, second = stored(tmp_path, "a", facts=FACTS), stored(tmp_path, "b", facts=FACTS)
    assert told(first, second) == {}
    for run, own in ((first, "1"), (second, "2")):
        text = f"extra-package=={own}\nsame==1\nonly-{own} @ git+https://host/only@{own}\n"
        (run.path / "1" / "w0" / "packages.txt").write_text(text)
    assert told(first, second) == {
        "packages: extra-package": ("1", "2"),
        "packages: only-1": ("@ git+https://host/only@1", ""),
        "packages: only-2": ("", "@ git+https://host/only@2"),
    }


def test_a_damaged_ledger_leaves_the_rest(tmp_path: Path) -> None:
    first = stored(tmp_path, "a", facts=FACTS)
    second = stored(tmp_path, "b", facts=FACTS, rate=0.2)
    path = tmp_path / "b" / "1" / "w0" / "ledger.json"
    path.write_bytes(path.read_bytes().replace(b"2.13.0", b"2.14.0"))
    assert "SGD: learning_rate" in told(first, second)
