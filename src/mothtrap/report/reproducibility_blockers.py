"""Conditions that keep a run from being reproducible, and their fixes.

Only conditions in the run's ledger are evaluated; others are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.samples import DataSeen
from mothtrap.core.ledger import Ledger, LedgerValue, Source, Start
from mothtrap.report import keras_blockers
from mothtrap.report.blocker import Blocker, State
from mothtrap.report.style import Style, count_of

STATES: tuple[State, ...] = ("will", "may", "cannot tell")
COLORS = {"will": "bold red", "may": "bold yellow", "cannot tell": "bold blue"}
PLAIN = Style()
SHOWN = 5
"""Names in one line."""

_GENERATORS = {
    "torch": ("torch", "torch.manual_seed(0) before the model is created"),
    "python": ("Python's random", "random.seed(0) at the top of the script"),
    "numpy": ("numpy.random", "numpy.random.seed(0) at the top of the script"),
}
_CONSEQUENCE = {
    "torch": (": initial weights, dropout, and the order of shuffled batches depend on it")
}


def blockers(
    ledger: Ledger | None,
    source: Source | None,
    loaders: Sequence[LoaderBegan],
    data: Sequence[DataSeen],
) -> Iterator[Blocker]:
    """Yield the reasons why a run cannot be reproduced on the same machine.

    Args:
        ledger: ledger of a worker; None if there is none.
        source: the script's repository.
        loaders: loaders of the run.
        data: datasets of the run.
    """
    if ledger is None:
        yield Blocker(
            state="cannot tell",
            what="seeds, switches and versions: the run has no ledger",
            fix="record the run again with this version of mothtrap; a run without "
            "steps has no ledger",
        )
    else:
        random = ledger.facts.get("random", {})
        yield from _seeds(random, leaves_out=() if "start.keras" not in random else ("torch",))
        yield from keras_blockers.blockers(ledger)
        yield from _switches(ledger)
        yield from _hashing(ledger)
    yield from _loaders(loaders)
    yield from _data(data)
    yield from _source(source)


def differences_here(
    ledger: Ledger, versions: Mapping[str, LedgerValue], hardware: Mapping[str, LedgerValue]
) -> Iterator[Blocker]:
    """Yield the differences between this machine and the run's machine.

    Args:
        ledger: ledger of the run.
        versions: versions, in this environment, of the packages that the run imported; None if not
            installed.
        hardware: hardware of this machine.
    """
    then = ledger.facts.get("versions", {})
    others = [
        f"{name} {then[name]} (here {versions[name] or 'none'})"
        for name in then
        if name in versions and versions[name] != then[name]
    ]
    if others:
        named = _named(others)
        yield Blocker(
            state="may",
            what=f"different versions are installed here: {named}",
            fix="install the versions in the ledger of the run",
        )
    before = ledger.facts.get("hardware", {})
    for name in ("processor", "machine", "usable_cores"):
        if name in before and name in hardware and before[name] != hardware[name]:
            yield Blocker(
                state="may",
                what=f"{name.replace('_', ' ')}: {before[name]} then, {hardware[name]} here: sums "
                "may be rounded differently",
                fix="set OMP_NUM_THREADS as in the run"
                if name == "usable_cores"
                else "use the same hardware",
            )


def changed_sources(
    then: Mapping[str, LedgerValue], now: Mapping[str, LedgerValue]
) -> Iterator[Blocker]:
    """Yield the files of the script that have changed.

    Args:
        then: digests by path, of the ledger.
        now: the same for the current files; a missing path cannot be read.
    """
    changed = [path for path in then if path in now and now[path] != then[path]]
    if changed:
        yield Blocker(
            state="will",
            what=f"{count_of(len(changed), 'file')} changed since the run: {_named(changed)}",
            where=changed[0],
            fix=(
                "check out the code of the run: its `source.json` contains the commit and the "
                "changes"
            ),
        )
    gone = [path for path in then if path not in now]
    if gone:
        yield Blocker(
            state="cannot tell",
            what=f"whether these files changed, which cannot be read here: {_named(gone)}",
        )


def text(found: Sequence[Blocker], name: str, style: Style = PLAIN) -> str:
    """Return all blockers, certain blockers first, and a closing sentence."""
    lines = []
    for state in STATES:
        for blocker in (each for each in found if each.state == state):
            where = f" ({style.safe(blocker.where)})" if blocker.where else ""
            word = style.paint(f"{state:<11}", COLORS[state])
            lines.append(f"{word} {style.safe(blocker.what)}{where}")
            if blocker.fix:
                lines.append(f"{'':<11} fix: {style.safe(blocker.fix)}")
    return "\n".join([*lines, f"{style.safe(name)}: {verdict(found)}"])


def verdict(found: Sequence[Blocker]) -> str:
    """Return one sentence about the reproducibility of a run."""
    counts = {state: sum(each.state == state for each in found) for state in STATES}
    if counts["will"]:
        return f"is not reproducible, for {count_of(counts['will'], 'reason')}"
    if counts["may"]:
        return f"may give different numbers, for {count_of(counts['may'], 'reason')}"
    if counts["cannot tell"]:
        unknown = count_of(counts["cannot tell"], "thing")
        return f"nothing found that prevents a reproducible run; {unknown} cannot be checked"
    return "nothing found that prevents a reproducible run"


def _seeds(
    random: Mapping[str, LedgerValue], *, leaves_out: Sequence[str] = ()
) -> Iterator[Blocker]:
    for name, (called, fix) in _GENERATORS.items():
        if name in leaves_out:
            continue
        start = random.get(f"start.{name}")
        more = _CONSEQUENCE.get(name, "")
        if start == Start.UNSEEDED:
            # Before the framework was imported others may have been seeded unseen.
            state: State = "will" if name == "torch" else "may"
            what = f"{called} was used, and no seed was observed{more}"
            yield Blocker(state=state, what=what, fix=fix)
        elif start == Start.CLOCK:
            what = f"the seed {random.get(f'seed.{name}')} of {called} is the start time"
            yield Blocker(state="will", what=what, fix=f"a fixed number: {fix}")
        elif start in (Start.UNKNOWN, None):
            what = f"whether {called} got a fixed seed"
            yield Blocker(state="cannot tell", what=what, fix=fix)


def _switches(ledger: Ledger) -> Iterator[Blocker]:
    """Switches that only matter on accelerators."""
    found = ledger.facts.get("determinism", {})
    if not any(name.startswith("cuda.") for name in ledger.facts.get("hardware", {})):
        return
    if found.get("cudnn.benchmark"):
        yield Blocker(
            state="may",
            what="cudnn.benchmark is on: the choice of convolution kernels depends on timing",
            fix="torch.backends.cudnn.benchmark = False",
        )
    if not found.get("deterministic_algorithms"):
        yield Blocker(
            state="may",
            what="operations may sum in any order (scatter, index_add, gradients of embedding)",
            fix="torch.use_deterministic_algorithms(True)",
        )
    elif found.get("deterministic_warn_only"):
        yield Blocker(
            state="may",
            what="operations without a deterministic version only warn",
            fix="torch.use_deterministic_algorithms(True) without warn_only",
        )
    variables = ledger.facts.get("environment", {})
    if variables.get("CUBLAS_WORKSPACE_CONFIG") not in (":4096:8", ":16:8"):
        yield Blocker(
            state="may",
            what="matrix products on several streams may sum in any order",
            where="CUBLAS_WORKSPACE_CONFIG",
            fix="CUBLAS_WORKSPACE_CONFIG=:4096:8 before the start",
        )


def _hashing(ledger: Ledger) -> Iterator[Blocker]:
    if ledger.facts.get("determinism", {}).get("python.hash_randomization"):
        yield Blocker(
            state="cannot tell",
            what="whether the script iterates over a set of strings: its order differs in each run",
            where="PYTHONHASHSEED",
            fix="PYTHONHASHSEED=0 before the start, or sorted(...) around the set",
        )


def _loaders(loaders: Iterable[LoaderBegan]) -> Iterator[Blocker]:
    told: set[tuple[str | None, str]] = set()
    for loader in loaders:
        blocker = _of_loader(loader)
        if blocker is not None and (loader.location, blocker.what) not in told:
            told.add((loader.location, blocker.what))
            yield blocker


def _of_loader(loader: LoaderBegan) -> Blocker | None:
    where = loader.location or loader.loader
    if loader.workers and not loader.in_order:
        return Blocker(
            state="will",
            what=f"each batch comes from whichever of {loader.workers} worker processes "
            "is ready first",
            where=where,
            fix="DataLoader(..., in_order=True)",
        )
    if loader.sampler == "own":
        return Blocker(
            state="cannot tell",
            what="in which order the script's own sampler draws samples",
            where=where,
            fix="give it a generator with a fixed seed",
        )
    if loader.sampler == "iterable" and loader.workers:
        return Blocker(
            state="cannot tell",
            what=f"whether the dataset has a fixed order in each of {loader.workers} processes; "
            "with a different number of processes it differs",
            where=where,
        )
    return None


def _data(data: Iterable[DataSeen]) -> Iterator[Blocker]:
    for seen in data:
        kind = seen.kind.rpartition(".")[2]
        if seen.sorted_names is False:
            yield Blocker(
                state="may",
                what="files are not sorted by name: the order of a file system may change",
                where=f"{kind}.{seen.names_in}",
                fix="sorted(...) around os.listdir or glob",
            )
        if seen.generators:
            yield Blocker(
                state="cannot tell",
                what="numbers that the dataset draws from its own generator, of which each "
                "loader process has a copy",
                where=f"{kind}.{seen.generators[0]}",
                fix="give it a fixed seed, and a different one for each process in worker_init_fn",
            )


def _source(source: Source | None) -> Iterator[Blocker]:
    if source is None or source.error:
        reason = f": {source.error}" if source is not None else ""
        yield Blocker(state="cannot tell", what=f"which commit ran{reason}", fix=_commit(source))
    elif source.changed_count:
        kept = "only their beginning was stored" if source.cut else "they are in source.json"
        yield Blocker(
            state="may",
            what=f"{count_of(source.changed_count, 'file')} had uncommitted changes; "
            f"{kept}: {_named(source.changed)}",
            where=f"commit {source.commit[:12]}",
            fix="commit before a run",
        )


def _commit(source: Source | None) -> str:
    """Return advice to commit the code of the next run, from git's report on this run."""
    error = source.error if source is not None else ""
    if "not a git repository" in error:
        return "git init, git add and git commit before a run"
    if "is not installed" in error:
        return "install git, and commit before a run"
    return "git commit before a run"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
