"""Charts of findings: the series that a rule evaluated, its reference line, and its ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mothtrap.core.documented import Documented
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.findings import Finding
from mothtrap.core.needs import facts_of
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.texts import readable
from mothtrap.web.derived_curves import ALL, can_join, fact_curves
from mothtrap.web.opened import OpenRun
from mothtrap.web.series import scalar_names, tensor_curve_name

MOST_CURVES = 4
"""Curves of a chart; chosen by hand."""
MOST_RANK_STEPS = 200
"""Compared steps that a picture of ranks shows; chosen by hand."""

ByLayer = Mapping[str, Sequence[TensorInfo]]
"""Tensors by name and by the path of their module."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Reference line of a chart: at `value`, or `times` the curve `of`."""

    label: str
    value: float | None = None
    of: str = ""
    times: float = 1.0


class EvidenceChart(msgspec.Struct, frozen=True, kw_only=True):
    """Chart of a finding.

    `curves` are names for `web.series`. `is_context` is set if they do not prove the finding: they
    are then losses or metrics around its onset.
    """

    title: str = ""
    curves: tuple[str, ...] = ()
    scale: str = ""
    lines: tuple[Line, ...] = ()
    is_context: bool = False


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks with equal weights of a module at the compared steps.

    `groups` has a row for each of `workers` and a column for each of `steps`: equal numbers mean
    equal weights, 0 is the largest group, None means not compared.
    """

    layer: str
    workers: tuple[int, ...]
    steps: tuple[int, ...]
    groups: tuple[tuple[int | None, ...], ...]


def tensors_by_layer(infos: Sequence[TensorInfo]) -> dict[str, list[TensorInfo]]:
    """Return tensors by their name and by the path of their module."""
    found: dict[str, list[TensorInfo]] = {}
    for info in infos:
        for layer in {info.name, info.module}:
            found.setdefault(layer, []).append(info)
    return found


def chart_of(
    opened: OpenRun,
    finding: Finding,
    rule: type[Documented] | None,
    by_layer: ByLayer,
    context: Sequence[str],
) -> EvidenceChart:
    """Return the chart of a finding.

    Args:
        opened: the run.
        finding: the finding.
        rule: its rule, if it is installed.
        by_layer: tensors of the run.
        context: curves that are drawn if no curve proves the finding.
    """
    proof = rule.proof if rule is not None and issubclass(rule, Rule) else None
    curves = _proven(opened, finding, proof, by_layer) if proof is not None else ()
    if proof is not None and curves:
        lines = tuple(_lines(finding, proof, curves, by_layer))
        return EvidenceChart(title=proof.title, curves=curves, scale=proof.scale, lines=lines)
    named = tuple(layer_curves(finding, rule, by_layer))[:MOST_CURVES]
    if named:
        return EvidenceChart(curves=named, scale="log")
    return EvidenceChart(curves=tuple(context)[:MOST_CURVES], is_context=True)


def layer_curves(
    finding: Finding, rule: type[Documented] | None, by_layer: ByLayer
) -> Iterator[str]:
    """Yield curves of the layers named in a finding, for statistics that its rule reads."""
    if rule is None or not issubclass(rule, Rule):
        return
    proof = rule.proof
    wanted = [(need.kinds, need.statistics[0]) for need in rule.needs if need.statistics]
    if proof is not None and proof.statistic:
        kind, _, statistic = proof.statistic.partition(".")
        wanted = [((kind,), statistic)]
    found = dict.fromkeys(
        tensor_curve_name(info.kind, statistic, info.name, finding.mode)
        for layer in finding.layers[:MOST_CURVES]
        for kinds, statistic in wanted
        for info in by_layer.get(layer, ())
        if info.kind in kinds
    )
    yield from found


def _proven(opened: OpenRun, finding: Finding, proof: Proof, by_layer: ByLayer) -> tuple[str, ...]:
    if proof.beside is not None:
        ends = [_end(finding, name, proof, by_layer) for name in proof.beside]
        return tuple(_curve(proof, end, finding) for end in ends if end is not None)
    if proof.fact is not None:
        return _of_facts(opened, finding, proof)
    found = list(_of_scalars(opened, finding, proof))
    if proof.statistic:
        kind, _, statistic = proof.statistic.partition(".")
        if proof.joint and not found and _can_join(opened, kind):
            found = [tensor_curve_name(kind, statistic, ALL, finding.mode)]
        layers = finding.layers[:MOST_CURVES]
        found += dict.fromkeys(
            _curve(proof, info, finding)
            for layer in layers
            for info in by_layer.get(layer, ())
            if info.kind == kind
        )
    return tuple(found)[:MOST_CURVES]


def _curve(proof: Proof, info: TensorInfo, finding: Finding) -> str:
    _, _, statistic = proof.statistic.partition(".")
    return tensor_curve_name(info.kind, statistic, info.name, finding.mode)


def _end(finding: Finding, name: str, proof: Proof, by_layer: ByLayer) -> TensorInfo | None:
    """The tensor of a layer that the evidence names: the bias, as rules on layers read it."""
    kind, layer = proof.statistic.partition(".")[0], finding.evidence.get(name)
    found = [info for info in by_layer.get(str(layer), ()) if info.kind == kind]
    biases = [info for info in found if len(info.shape) == 1 and info.name.endswith("bias")]
    return next(iter(biases or found), None)


def _of_facts(opened: OpenRun, finding: Finding, proof: Proof) -> tuple[str, ...]:
    curves = fact_curves(opened.run, proof)
    named = {
        name
        for name, subject in curves.items()
        if subject in finding.layers or subject.partition(":")[2] in finding.layers
    }
    return tuple(name for name in curves if name in named or not named)[:MOST_CURVES]


def _of_scalars(opened: OpenRun, finding: Finding, proof: Proof) -> Iterator[str]:
    """Yield the scalars of a proof, only of the finding's series or optimizer if it names one."""
    modes = {Mode.TRAIN.value, finding.mode}
    known = {
        name: scalar
        for name, scalar in scalar_names(opened.run).items()
        if scalar[0] in proof.scalars and scalar[2].value in modes
    }
    owners = {finding.evidence.get(key) for key in ("series", "optimizer")} - {None, ""}
    own = [name for name, scalar in known.items() if scalar[1] in owners]
    yield from sorted(own or known, key=lambda name: not name.startswith(f"{finding.mode}/"))


def _can_join(opened: OpenRun, kind: str) -> bool:
    """Return whether the run has a single optimizer, and its joint norm can be read."""
    run = opened.run
    optimizers = [scalar for scalar in scalar_names(run).values() if scalar[0] == "lr"]
    return len(optimizers) < 2 and can_join(run) and bool(run.tensors(kind=kind))


def _lines(
    finding: Finding,
    proof: Proof,
    curves: Sequence[str],
    by_layer: ByLayer,
) -> Iterator[Line]:
    """Yield the reference line of a chart, if the evidence has its numbers."""
    numbers = [finding.evidence.get(name) for name in proof.reference]
    values = [float(n) for n in numbers if isinstance(n, int | float)]
    if not values or len(values) < len(numbers) or not math.isfinite(math.prod(values)):
        return
    value = math.prod(values)
    names = " × ".join(name.replace("_", " ") for name in proof.reference)
    if proof.beside is not None:
        first, last = (_end(finding, name, proof, by_layer) for name in proof.beside)
        if first is not None and last is not None and len(curves) == 2:
            times = value * math.sqrt(_size(first) / _size(last))
            label = f"{names}: {value:g} of the last layer, for each element"
            yield Line(label=label, of=curves[1], times=times)
        return
    whole = not proof.joint or any(c.endswith(f"/{ALL}") or c.count("/") == 1 for c in curves)
    if whole:
        yield Line(label=readable(f"{names}: {value:.4g}"), value=value)


def _size(info: TensorInfo) -> int:
    return max(1, math.prod(info.shape))


def ranks_of(opened: OpenRun, finding: Finding, rule: type[Documented] | None) -> Ranks | None:
    """Group the ranks with equal weights, for a finding of a rule that compares them."""
    if rule is None or not issubclass(rule, Rule) or ReplicaDigests not in facts_of(rule.needs):
        return None
    by_step: dict[int, dict[int, dict[str, str]]] = {}
    for worker in opened.run.workers:
        for part in opened.run.parts(worker):
            for seen in part.view.observations:
                if isinstance(seen, ReplicaDigests) and part.has(seen.step, seen.mode):
                    by_step.setdefault(seen.step, {})[worker] = seen.digests
    names = [name for step in by_step.values() for own in step.values() for name in own]
    layer = next((each for each in (*finding.layers, *names) if each in names), None)
    steps = tuple(sorted(by_step))[:MOST_RANK_STEPS]
    workers = tuple(sorted({worker for step in by_step.values() for worker in step}))
    if layer is None or len(workers) < 2:
        return None
    columns = [_grouped({w: by_step[s].get(w, {}).get(layer) for w in workers}) for s in steps]
    groups = tuple(tuple(column[worker] for column in columns) for worker in workers)
    return Ranks(layer=layer, workers=workers, steps=steps, groups=groups)


def _grouped(digest_by_worker: Mapping[int, str | None]) -> dict[int, int | None]:
    """Number the groups of equal digests by size, then by lowest rank; 0 is the largest."""
    digests = [digest for digest in digest_by_worker.values() if digest is not None]
    order = sorted(dict.fromkeys(digests), key=lambda digest: -digests.count(digest))
    return {
        worker: None if digest is None else order.index(digest)
        for worker, digest in digest_by_worker.items()
    }
