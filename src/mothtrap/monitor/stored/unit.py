"""One unit of work: evaluate the rules on one stored run, in any process.

Argument and result are JSON, so that a unit can run in another process or on another machine
without objects of this package being pickled.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mothtrap.core import diagnosis, jsonable
from mothtrap.core.config import Config
from mothtrap.core.diagnosis import diagnose
from mothtrap.core.errors import MothtrapError
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.own_version import own_version
from mothtrap.core.quiet import Quiet
from mothtrap.core.runs import Judged, RuleStatus, switched_off
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import explains, load_rules
from mothtrap.monitor.catalogue import switched_off as unusable
from mothtrap.reader.run import Run, open_run
from mothtrap.store.analyses import content_digest, get_analysis, key_of, put_analysis
from mothtrap.store.finding_log import with_numbers


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A run to evaluate, and the rules.

    Attributes:
        run: path or URL of the run.
        config: the configuration with the selected rules and their thresholds.
        skips_done: reuse a stored result of the same rules and data.
    """

    run: str
    config: Config
    skips_done: bool = False


class StoredVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the rules on one stored run.

    Attributes:
        run: path or URL of the run.
        name: name of the run.
        verdict: the verdict in one sentence.
        findings: findings, the most severe first.
        rules: state of each rule.
        options: parameters of the run, by name.
        error: reason if the run could not be evaluated; otherwise "".
        seconds: CPU time of the evaluation in seconds.
        is_stored: the result was stored by an earlier evaluation.
    """

    run: str
    name: str = ""
    verdict: str = ""
    findings: tuple[Finding, ...] = ()
    rules: tuple[RuleStatus, ...] = ()
    options: dict[str, LedgerValue] = {}
    error: str = ""
    seconds: float = 0.0
    is_stored: bool = False

    @property
    def failed(self) -> tuple[RuleStatus, ...]:
        """Rules that failed on this run, with the reason."""
        return tuple(rule for rule in self.rules if rule.state is RuleState.RULE_FAILED)


def evaluate(data: bytes) -> bytes:
    """Evaluate the rules on a stored run, and store the result in the run.

    Args:
        data: a `Unit` as JSON.

    Returns:
        A `StoredVerdict` as JSON. It includes errors: no exception is raised.
    """
    unit = jsonable.decode(data, Unit)
    began_s = time.process_time()
    try:
        found = _evaluated(unit)
    except (MothtrapError, OSError) as err:
        found = StoredVerdict(run=unit.run, error=str(err))
    except Exception as err:  # one run must not end the evaluation of the others
        found = StoredVerdict(run=unit.run, error=f"{type(err).__name__}: {err}")
    seconds = time.process_time() - began_s
    return jsonable.encode(msgspec.structs.replace(found, seconds=seconds))


def verdict_of(data: bytes) -> StoredVerdict:
    """Decode the result of `evaluate`.

    Raises:
        msgspec.DecodeError: the bytes are not a result of `evaluate`.
    """
    found = jsonable.decode(data, StoredVerdict)
    return msgspec.structs.replace(found, findings=tuple(map(with_numbers, found.findings)))


def _evaluated(unit: Unit) -> StoredVerdict:
    run = open_run(unit.run)
    key = "" if run.state == "running" else _key(unit.config, run.path)
    if key and unit.skips_done and (stored := get_analysis(run.path, key)) is not None:
        try:
            known = jsonable.decode(stored, StoredVerdict)
        except msgspec.DecodeError:
            pass  # damaged result: evaluated again, and not replaced
        else:
            return msgspec.structs.replace(known, run=unit.run, is_stored=True)
    judged = judge_again(
        run,
        load_rules(unit.config),
        Quiet.of(unit.config),
        switched_off=unusable(unit.config),
    )
    found = StoredVerdict(
        run=unit.run,
        name=run.id,
        verdict=_sentence(run, judged),
        findings=judged.findings,
        rules=judged.rules,
        options=run.record.parameters,
    )
    if key:
        put_analysis(run.path, key, jsonable.encode(found))
    return found


def _sentence(run: Run, judged: Judged) -> str:
    off = switched_off(judged.rules)
    found = diagnose(judged.findings, explains())
    text = diagnosis.verdict(found, steps=run.steps, others=bool(off))
    return f"{off} {text}" if off else text


def _key(config: Config, run: Path) -> str:
    """Return the key of a result: version, rules with their settings and files, and the data."""
    names = ("select", "ignore", "rules", "severity", "per_layer_ignores", "invariants")
    settings = [getattr(config, name) for name in names]
    files = [Path(file).read_text(errors="replace") for file in config.rule_files]
    files += [Path(config.invariants).read_text(errors="replace")] if config.invariants else []
    return key_of((own_version(), jsonable.text(settings), *files, content_digest(run)))
