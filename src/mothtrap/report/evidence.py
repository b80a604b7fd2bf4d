"""Evidence of findings in a report: the curves that a rule evaluated, and the worst layers."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.installed_rules import installed
from mothtrap.core.proof import LOSS, Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.series.worker_series import statistic_series
from mothtrap.report.chart import series_chart

if TYPE_CHECKING:
    from mothtrap.core.tensors import TensorInfo
    from mothtrap.reader.run import Run

MOST_CURVES = 4
"""Curves of a chart, as on the page; chosen by hand."""
MOST_CHARTS = 8
"""Findings that get a chart; chosen by hand, since a report has at most 5 MB."""
WORST = 8
"""Layers of the table, as on the page; chosen by hand."""


class WorstLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that a finding names; `last` is the last value of `quantity`, None if unknown."""

    name: str
    code: str
    severity: Severity
    quantity: str = ""
    last: float | None = None


class Evidence:
    """Reads the series that prove the findings of a run, each series once.

    Args:
        run: the run of the findings.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._rules = {rule.code: rule for rule in installed()[0]}
        self._infos = [tensor.info for tensor in run.tensors()] if run.workers else []
        self._known: dict[tuple[int, str, str, str], Series] = {}

    def charts(self, findings: Iterable[Finding]) -> dict[str, str]:
        """Return an SVG chart by fingerprint for each finding whose rule names its series.

        A finding about the loss has no chart, because the report begins with the loss.
        """
        found = ((finding, self._chart(finding)) for finding in findings)
        drawn = ((finding.fingerprint, chart) for finding, chart in found if chart)
        return dict(islice(drawn, MOST_CHARTS))

    def worst_layers(self, findings: Iterable[Finding]) -> tuple[WorstLayer, ...]:
        """Return the layers that findings name, the worst finding first."""
        serious = [finding for finding in findings if finding.severity is not Severity.INFO]
        named = {name: finding for finding in serious[::-1] for name in finding.layers[::-1]}
        ordered = dict.fromkeys(name for finding in serious for name in finding.layers)
        return tuple(self._worst(name, named[name]) for name in islice(ordered, WORST))

    def _worst(self, name: str, finding: Finding) -> WorstLayer:
        proof = self._proof(finding)
        curve = next(self._of_layers(finding, proof, (name,)), None) if proof is not None else None
        return WorstLayer(
            name=name,
            code=finding.code,
            severity=finding.severity,
            quantity=_quantity(proof) if proof is not None and curve is not None else "",
            last=float(curve.values_S[-1]) if curve is not None else None,
        )

    def _proof(self, finding: Finding) -> Proof | None:
        rule = self._rules.get(finding.code)
        return rule.proof if rule is not None and issubclass(rule, Rule) else None

    def _chart(self, finding: Finding) -> str:
        proof = self._proof(finding)
        if proof is None or proof.scalars == LOSS.scalars:
            return ""
        layers = finding.layers[:MOST_CURVES]
        if proof.beside is not None:
            layers = tuple(str(finding.evidence.get(name)) for name in proof.beside)
        curves = [*self._of_layers(finding, proof, layers)]
        for name in proof.scalars:
            curves += [each for each in self._run.scalars(name, Mode.TRAIN) if len(each)]
        if not curves:
            return ""
        chart = series_chart(curves[:MOST_CURVES], [finding], _limit(finding, proof))
        return f'<p class="soft">{html.escape(proof.title)}</p>{chart}'

    def _of_layers(self, finding: Finding, proof: Proof, layers: Sequence[str]) -> Iterator[Series]:
        """Yield the statistic of a proof for each layer."""
        kind, _, statistic = proof.statistic.partition(".")
        known = self._run.workers
        if not statistic or not known:
            return
        worker = next((each for each in finding.workers if each in known), known[0])
        for layer in layers:
            info = self._of_layer(layer, kind)
            if info is None:
                continue
            key = (worker, info.identity, statistic, finding.mode)
            if key not in self._known:
                parts = self._run.parts(worker)
                self._known[key] = statistic_series(parts, info, statistic, Mode(finding.mode))
            if len(found := self._known[key]):
                yield replace(found, name=info.name, of="")

    def _of_layer(self, layer: str, kind: str) -> TensorInfo | None:
        """Return the tensor of a layer: of several, the bias, as rules on layers read it."""
        own = [each for each in self._infos if each.kind == kind]
        own = [each for each in own if layer in (each.name, each.module)]
        biases = [each for each in own if len(each.shape) == 1 and each.name.endswith("bias")]
        return next(iter(biases or own), None)


def _quantity(proof: Proof) -> str:
    """Return the statistic of a proof in words, such as `gradient norm`."""
    kind, _, statistic = proof.statistic.partition(".")
    return f"{kind} {'norm' if statistic == 'l2' else statistic}".replace("_", " ")


def _limit(finding: Finding, proof: Proof) -> float | None:
    """Return the height of the reference line; None if it follows a curve or is unknown."""
    numbers = [finding.evidence.get(name) for name in proof.reference]
    values = [float(number) for number in numbers if isinstance(number, int | float)]
    if not values or len(values) < len(numbers) or proof.beside is not None or proof.joint:
        return None
    limit = math.prod(values)
    return limit if math.isfinite(limit) else None
