"""Ledger of the settings that a job's numbers depend on, as of the first step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mothtrap.core.jsonable import UnixTime

LedgerValue = str | int | float | bool | None

SECTIONS = (
    "parameters",
    "data",
    "random",
    "determinism",
    "versions",
    "hardware",
    "environment",
    "sources",
)
"""Sections of a ledger, in display order."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """`ledger.json` of a worker.

    `created_s` is in Unix seconds. `arguments` are the arguments of the process, without secrets.
    `facts` are by section (`SECTIONS`) and name:

        parameters   of the script, as its parser returned them, or its constants
        data         files that were open or mapped, by path: size, change, digest
        random       `seed.NAME`: the seed of a generator, if known;
                     `start.NAME`: how it was set up (see `core.ledger.Start`);
                     `digest.NAME`: of its state at the end of the first step
        determinism  switches of the framework, `python.hash_randomization`
        versions     of Python, of the framework and of every imported distribution
        hardware     processor, memory, accelerators
        environment  relevant variables, from an allow-list
        sources      digests of the script's own modules, by path

    `missing` lists facts that could not be determined, with the reason. `given` are parameters that
    differ from the default of their parser; `parameters_from` is the source from which they were
    read.
    """

    created_s: UnixTime
    rank: int
    framework: str
    arguments: tuple[str, ...]
    cwd: str
    facts: dict[str, dict[str, LedgerValue]] = {}
    missing: dict[str, str] = {}
    given: tuple[str, ...] = ()
    parameters_from: str = ""


class Start:
    """Initialization of a random number generator before the first step."""

    SEEDED = "seeded"
    """The generator was started with a seed."""
    CLOCK = "clock"
    """The seed is a time."""
    UNSEEDED = "unseeded"
    """The system's entropy seeded the generator, and numbers were drawn."""
    UNUSED = "unused"
    """Seeded by the system's entropy; no numbers were drawn before the end of the first step."""
    UNKNOWN = "unknown"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """`source.json` of an attempt: the state of the script's git repository at its start.

    `changed` are the paths of files with uncommitted changes, at most the first few hundred of
    `changed_count`. `diff` is the text of these changes, up to `core.ledger.DIFF_CHARACTERS`
    characters. `error` is the reason if the state is unknown, otherwise empty.
    """

    commit: str = ""
    branch: str = ""
    changed: tuple[str, ...] = ()
    changed_count: int = 0
    diff: str = ""
    cut: bool = False
    error: str = ""


class SourceTexts(msgspec.Struct, frozen=True, kw_only=True):
    """`sources.json` of a worker: the files of the script as they were at the first step.

    `files` maps each path, as in the facts `sources`, to the text with secrets masked. Some files
    are missing: see `session.record.source_texts`.
    """

    files: dict[str, str] = {}


DIFF_CHARACTERS = 200_000
"""Maximum number of stored characters of a diff; chosen by hand: more than a day's work."""


def differences(
    first: Mapping[str, Mapping[str, LedgerValue]], second: Mapping[str, Mapping[str, LedgerValue]]
) -> Iterator[tuple[str, str, LedgerValue, LedgerValue]]:
    """Yield the facts in which two ledgers differ: section, name, and both values.

    A value is None if only the other ledger has the fact.

    Args:
        first: facts of a ledger.
        second: facts of another ledger.
    """
    for section in dict.fromkeys((*SECTIONS, *first, *second)):
        before, after = first.get(section, {}), second.get(section, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield section, name, before.get(name), after.get(name)
