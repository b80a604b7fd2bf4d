"""Likely cause of the divergence of two runs: its class, and the evidence for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from mothtrap.core.kinds import kinds
from mothtrap.core.steps import Mode
from mothtrap.reader.compare.comparable import Phase
from mothtrap.reader.compare.conditions import ConditionDiffers
from mothtrap.reader.compare.data_differences import (
    agree_again,
    other_parts,
    random_states_agree,
    same_rows,
    same_samples,
)
from mothtrap.reader.compare.first_divergence import FirstDivergence
from mothtrap.reader.compare.worker_causes import worker_cause
from mothtrap.reader.run import Run

CauseKind = Literal[
    "data order",
    "data",
    "random numbers",
    "initialisation",
    "numerics",
    "code",
    "configuration",
    "workers",
    "unknown",
]
LAST_BITS = 1e-4
"""Relative difference of a loss up to which rounding explains it, at equal inputs: about a
thousand times the last bit of float32; chosen by hand."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The likely cause, in one sentence, and its evidence."""

    kind: CauseKind
    sentence: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Case:
    """Two runs, their first difference, and their different start conditions."""

    first: Run
    second: Run
    divergence: FirstDivergence
    conditions: Sequence[ConditionDiffers]


def likely_cause(
    first: Run, second: Run, divergence: FirstDivergence, conditions: Sequence[ConditionDiffers]
) -> Cause:
    """Return the most likely cause of the first divergence.

    Args:
        first: the first run.
        second: the second run.
        divergence: the first difference.
        conditions: start conditions that differ.
    """
    asked = {
        Phase.STATE.words: _of_state,
        Phase.BATCH.words: _of_batch,
        Phase.TARGET.words: _of_targets,
        Phase.RANDOM.words: _of_random,
        Phase.SETTINGS.words: _of_settings,
    }.get(divergence.phase, _of_results)
    cause = asked(_Case(first, second, divergence, conditions))
    known = _relevant(conditions, cause.kind)
    told = [f"{c.what}: {c.first or '-'} and {c.second or '-'}" for c in known]
    evidence = (*cause.evidence, *(text for text in told if text not in cause.evidence))
    return msgspec.structs.replace(cause, evidence=evidence[:8])


_SPEAKING: dict[CauseKind, tuple[str, ...]] = {
    "random numbers": ("random: ",),
    "initialisation": ("random: ",),
    "numerics": ("element types", "determinism: ", "versions: ", "hardware: ", "sources: "),
    "code": ("sources: ", "versions: "),
    "data order": ("random: ", "loader "),
}
"""Differing conditions that indicate each kind of cause, best first."""


def _relevant(conditions: Sequence[ConditionDiffers], kind: CauseKind) -> list[ConditionDiffers]:
    """Return the evidence for a kind of cause first, then the rest without trivial conditions."""
    quiet = ("setting ", "host", "working directory", "command", "environment: ", "hardware: ")
    heads = _SPEAKING.get(kind, ())
    speaking = [c for head in heads for c in conditions if c.what.startswith(head)]
    rest = [c for c in conditions if c not in speaking and not c.what.startswith(quiet)]
    return [*speaking, *rest]


def _of_state(case: _Case) -> Cause:
    what, step = case.divergence.what, case.divergence.step
    before = step - 1 if case.divergence.since is None else case.divergence.since
    if case.divergence.missing:
        which = "second" if case.divergence.first == "nothing" else "first"
        return Cause(
            kind="code",
            sentence=f"only the {which} run has {what}: the model is built differently",
        )
    types = [c for c in case.conditions if c.what.startswith("element types of weights")]
    if types:
        return Cause(
            kind="numerics",
            sentence=f"the weights are {types[0].first} in the first run and "
            f"{types[0].second} in the second",
        )
    begins = [_first_step(case.first), _first_step(case.second)]
    count, of = case.divergence.count, case.divergence.of
    share = f"{count} of {of} weights and buffers differ before step {step}"
    if step <= max(begins):
        return Cause(
            kind="initialisation",
            sentence="the runs start from different weights",
            evidence=(share,),
        )
    optimizers = [c for c in case.conditions if _is_of_optimizer(case.first, c)]
    if optimizers:
        return Cause(
            kind="configuration",
            sentence=f"the optimizer has different settings ({optimizers[0].what})",
            evidence=(share,),
        )
    return Cause(
        kind="numerics",
        sentence=f"everything in step {before} is the same, but the weights after it differ: the "
        "update is computed differently, or something else changed the weights",
        evidence=(share,),
    )


def _first_step(run: Run) -> int:
    return min(run.steps_of(Mode.TRAIN).tolist(), default=0)


def _is_of_optimizer(run: Run, condition: ConditionDiffers) -> bool:
    return any(condition.what.startswith(f"{s.of}: ") for s in run.scalars("lr"))


def _of_batch(case: _Case) -> Cause:
    step = case.divergence.step
    order = same_rows(case.first, case.second, step)
    if order:
        return Cause(
            kind="data order",
            sentence="the same samples come in a different order",
            evidence=(order,),
        )
    if len(case.first.workers) != len(case.second.workers):
        return Cause(kind="data", sentence="all ranks together get different rows")
    loaders = [c for c in case.conditions if c.what.startswith("loader ")]
    workers = next((c for c in loaders if c.what.endswith(": workers")), None)
    same, samples = same_samples(case.first, case.second, step)
    evidence = tuple(filter(None, (*other_parts(case.first, case.second), samples)))
    if workers is not None:
        return Cause(
            kind="configuration",
            sentence=f"the batches come from {workers.first} and {workers.second} "
            "loader processes: code that draws random numbers there, such as "
            "augmentation, draws different numbers",
            evidence=evidence,
        )
    if loaders:
        return Cause(
            kind="configuration",
            sentence=f"the loader has different settings ({loaders[0].what})",
            evidence=evidence,
        )
    if same is False:
        return Cause(
            kind="data order",
            sentence="the samplers select different samples: they draw them in a different order",
            evidence=evidence,
        )
    if same and random_states_agree(case.first, case.second, step):
        return Cause(
            kind="data",
            sentence="the same samples have different values, and the random numbers agree: the "
            "data or their preparation changed",
            evidence=evidence,
        )
    if same and not agree_again(case.first, case.second):
        return Cause(
            kind="random numbers",
            sentence="the same samples have different values: augmentation or preprocessing",
            evidence=evidence,
        )
    told = "some samples have different values" if same else "the runs get different data"
    return Cause(kind="data", sentence=told, evidence=evidence)


def _of_targets(case: _Case) -> Cause:
    return Cause(
        kind="data",
        sentence="the model gets the same inputs, but the loss gets different targets",
        evidence=(f"first in step {case.divergence.step}",),
    )


def _of_random(case: _Case) -> Cause:
    names = [case.divergence.what, *case.divergence.also]
    evidence = ["weights and batches agree up to there", f"differing: {', '.join(names)}"]
    evidence += _follows(case.first, case.second)
    begins = _first_step(case.first)
    if case.divergence.step <= begins and not case.divergence.micro_batch:
        return Cause(
            kind="random numbers",
            sentence="a different seed, or random numbers drawn before the first step",
            evidence=tuple(evidence),
        )
    step, micro_batch = case.divergence.step, case.divergence.micro_batch
    before = step - 1 if case.divergence.since is None else case.divergence.since
    where = f"after the forward pass of step {before} and before the forward pass of step {step}"
    if micro_batch:
        between = f"{micro_batch - 1} and {micro_batch} of step {step}"
        where = f"between the forward passes of micro-batches {between}"
    return Cause(
        kind="random numbers",
        sentence=f"one run drew random numbers that the other did not, {where}",
        evidence=tuple(evidence),
    )


def _follows(first: Run, second: Run) -> list[str]:
    """Describe when the losses begin to differ, if they do."""
    losses = [run.scalars("loss", mode=Mode.TRAIN) for run in (first, second)]
    parts = []
    for one, other in zip(*losses, strict=False):
        steps_S, mine, theirs = np.intersect1d(one.steps_S, other.steps_S, return_indices=True)
        parts += steps_S[one.values_S[mine] != other.values_S[theirs]][:1].tolist()
    if parts:
        return [f"the losses differ from step {min(parts)} on"]
    return ["the losses are still the same"] if losses[0] and losses[1] else []


def _of_settings(case: _Case) -> Cause:
    told = case.divergence
    name = _SETTINGS.get(told.what.partition(":")[0], told.what)
    sentence = f"{name} is {told.first} in the first run and {told.second} in the second"
    return Cause(kind="configuration", sentence=sentence, evidence=("everything before it agrees",))


_SETTINGS = {
    "lr": "the learning rate",
    "clip_limit": "the norm to which gradients are clipped",
    "loss_scale": "the scale of the loss",
}


def _of_results(case: _Case) -> Cause:
    what, relative = case.divergence.what, case.divergence.apart
    if len(case.second.workers) > len(case.first.workers) == 1:
        names = frozenset((what, *case.divergence.also))
        known = worker_cause(case.first, case.second, case.divergence.step, names)
        if known is not None:
            return Cause(kind="workers", sentence=known.sentence, evidence=known.evidence)
    if relative is None:
        relative = _apart(case)
    types = [
        c
        for c in case.conditions
        if c.what.startswith("element types") and c.first and c.second  # else it is not known
    ]
    agrees = [f"everything that was compared before {what} agrees"]
    if not _compares_weights(case):
        agrees.append(
            f"the weights before step {case.divergence.step} were not compared bit for bit; set "
            "`digests = true` in the configuration of both runs"
        )
    if types:
        return Cause(
            kind="numerics",
            sentence=f"the {types[0].what} are {types[0].first} in the first run and "
            f"{types[0].second} in the second",
            evidence=tuple(agrees),
        )
    if relative is not None and relative > LAST_BITS:
        return Cause(
            kind="code",
            sentence=f"with the same inputs, {what} has a different value "
            f"({100 * relative:.2f} % apart): it is computed differently",
            evidence=tuple(agrees),
        )
    much = "different" if relative is None else f"{relative:.1e} apart"
    edited = any(c.what.startswith("sources: ") for c in case.conditions)
    return Cause(
        kind="numerics",
        sentence=(
            f"with the same inputs, {what} is {much}: rounding, e.g. from another library, "
            "device, or number of threads, or a nondeterministic algorithm"
        )
        + (", or the change in the sources" if edited else ""),
        evidence=tuple(agrees),
    )


def _apart(case: _Case) -> float | None:
    """Return how much the norms of a tensor with different digests differ, relative to its kind.

    None if the norms are unknown.
    """
    kind, _, name = case.divergence.what.partition(":")
    if kind not in kinds():
        return None
    norms, largest = [], 0.0
    for run in (case.first, case.second):
        found = run.range(case.divergence.step, case.divergence.step + 1).stats(
            kind, worker=case.divergence.worker
        )["l2"]
        columns = [place for place, tensor in enumerate(found.tensors) if tensor.name == name]
        if not columns or not len(found):
            return None
        norms.append(float(found.values_ST[0, columns[0]]))
        largest = max(largest, float(np.nanmax(np.abs(found.values_ST[0]))))
    apart = abs(norms[0] - norms[1])
    return apart / largest if largest and np.isfinite(apart) and np.isfinite(largest) else None


def _compares_weights(case: _Case) -> bool:
    """Return whether both runs have digests of weights at the step of the divergence."""
    step = case.divergence.step
    found = (
        run.range(step, step + 1).scalars("digest*:weight:*") for run in (case.first, case.second)
    )
    return all(any(map(len, series)) for series in found)
