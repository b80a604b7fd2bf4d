from __future__ import annotations

import pytest

from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.samples import DataSeen
from mothtrap.core.ledger import Ledger, LedgerValue, Source, Start
from mothtrap.report.reproducibility_blockers import (
    Blocker,
    blockers,
    changed_sources,
    differences_here,
    text,
    verdict,
)

SEEDED: dict[str, LedgerValue] = {
    f"start.{name}": Start.SEEDED for name in ("torch", "python", "numpy")
}
CLEAN = Source(commit="0123456789abcdef", branch="main")


def ledger(**facts: dict[str, LedgerValue]) -> Ledger:
    whole: dict[str, dict[str, LedgerValue]] = {
        "random": SEEDED,
        "determinism": {"python.hash_randomization": False},
        "hardware": {"processor": "X", "usable_cores": 4},
        **facts,
    }
    return Ledger(
        created_s=0.0, rank=0, framework="torch", arguments=(), cwd="/x", facts=whole, missing={}
    )


def judge(known: Ledger | None = None, source: Source | None = CLEAN) -> list[tuple[str, str]]:
    return [(each.state, each.what) for each in blockers(known or ledger(), source, (), ())]


def test_a_seeded_run_of_a_clean_commit_has_no_obstacle() -> None:
    assert judge() == []
    assert verdict([]).startswith("nothing found that prevents")


@pytest.mark.parametrize(
    ("generator", "start", "state"),
    [
        ("torch", Start.UNSEEDED, "will"),
        ("torch", Start.CLOCK, "will"),
        ("torch", Start.UNKNOWN, "cannot tell"),
        ("numpy", Start.UNSEEDED, "may"),
        ("python", Start.CLOCK, "will"),
    ],
)
def test_seeds_are_judged(generator: str, start: str, state: str) -> None:
    [(found, what)] = judge(ledger(random={**SEEDED, f"start.{generator}": start}))
    assert found == state
    assert generator in what.lower()


def test_a_generator_that_no_one_used_is_no_matter() -> None:
    assert judge(ledger(random={**SEEDED, "start.numpy": Start.UNUSED})) == []


def test_switches_of_accelerators_count_only_where_there_are_some() -> None:
    switches: dict[str, LedgerValue] = {"cudnn.benchmark": True, "deterministic_algorithms": False}
    assert judge(ledger(determinism=switches)) == []
    device: dict[str, LedgerValue] = {"cuda.0": "H100, 80 GiB"}
    found = judge(ledger(determinism=switches, hardware=device))
    assert [state for state, _ in found] == ["may"] * 3
    sound: dict[str, LedgerValue] = {"cudnn.benchmark": False, "deterministic_algorithms": True}
    variables: dict[str, LedgerValue] = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    assert judge(ledger(determinism=sound, hardware=device, environment=variables)) == []
    sound["deterministic_warn_only"] = True
    assert len(judge(ledger(determinism=sound, hardware=device, environment=variables))) == 1


def test_the_order_of_sets_cannot_be_told() -> None:
    [(state, _)] = judge(ledger(determinism={"python.hash_randomization": True}))
    assert state == "cannot tell"


def test_uncommitted_changes_and_unknown_commits_are_said() -> None:
    dirty = Source(commit="0123456789abcdef", changed=("a.py", "b.py"), changed_count=2)
    [(state, what)] = judge(source=dirty)
    assert state == "may"
    assert "2 files had uncommitted changes" in what
    assert "a.py, b.py" in what
    [(state, what)] = judge(source=Source(error="git is not installed"))
    assert (state, "git is not installed" in what) == ("cannot tell", True)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (
            "/x: git says: fatal: not a git repository (or any of",
            "git init, git add and git commit",
        ),
        ("git is not installed", "install git, and commit"),
        ("/x: git says: fatal: ambiguous argument 'HEAD'", "git commit"),
    ],
)
def test_the_way_to_a_commit_is_one_that_works_there(error: str, fix: str) -> None:
    [found] = blockers(ledger(), Source(error=error), (), ())
    assert found.fix is not None
    assert found.fix.startswith(fix)


def test_without_a_ledger_nothing_can_be_told() -> None:
    found = list(blockers(None, None, (), ()))
    assert {each.state for each in found} == {"cannot tell"}


def loader(**more: object) -> LoaderBegan:
    return LoaderBegan(step=0, loader="loader 1", location="train.py:9", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("began", "state"),
    [
        (loader(sampler="shuffled", workers=2, in_order=False), "will"),
        (loader(sampler="own"), "cannot tell"),
        (loader(sampler="iterable", workers=2), "cannot tell"),
        (loader(sampler="iterable"), None),
        (loader(sampler="shuffled", workers=4), None),
    ],
)
def test_loaders_are_judged_once_for_each_line(began: LoaderBegan, state: str | None) -> None:
    found = list(blockers(ledger(), CLEAN, (began, began), ()))
    assert [each.state for each in found] == ([state] if state else [])
    assert all(each.where == "train.py:9" for each in found)


def test_files_out_of_order_and_generators_of_the_data_are_said() -> None:
    data = DataSeen(
        step=0,
        data=0,
        loader="loader 1",
        kind="train.Folder",
        names_in="files",
        sorted_names=False,
        generators=("rng",),
    )
    found = list(blockers(ledger(), CLEAN, (), (data,)))
    assert [(each.state, each.where) for each in found] == [
        ("may", "Folder.files"),
        ("cannot tell", "Folder.rng"),
    ]


def test_other_versions_and_another_processor_here_are_said() -> None:
    known = ledger(versions={"torch": "2.12", "numpy": "2.0", "PIL": "12.0", "gone": "1"})
    here: dict[str, LedgerValue] = {"torch": "2.13", "numpy": "2.0", "gone": None}
    found = list(differences_here(known, here, {"processor": "Y", "usable_cores": 4}))
    assert [each.what for each in found] == [
        "different versions are installed here: torch 2.12 (here 2.13), gone 1 (here none)",
        "processor: X then, Y here: sums may be rounded differently",
    ]


def test_changed_and_missing_sources_are_said() -> None:
    found = list(
        changed_sources({"a.py": "1", "b.py": "2", "c.py": "3"}, {"a.py": "1", "b.py": "9"})
    )
    assert [(each.state, each.what) for each in found] == [
        ("will", "1 file changed since the run: b.py"),
        ("cannot tell", "whether these files changed, which cannot be read here: c.py"),
    ]


def test_the_certain_ones_come_first() -> None:
    found = [
        Blocker(state="cannot tell", what="third"),
        Blocker(state="may", what="second", fix="mend"),
        Blocker(state="will", what="first", where="a.py:1"),
    ]
    assert text(found, "run").splitlines() == [
        "will        first (a.py:1)",
        "may         second",
        "            fix: mend",
        "cannot tell third",
        "run: is not reproducible, for 1 reason",
    ]
    assert verdict(found[:2]) == "may give different numbers, for 1 reason"
