"""Join findings into stories: a root cause first, then its effects. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mothtrap.core.findings import PASSED, Finding, Severity
from mothtrap.core.texts import layer_in_words

ONSET_SLACK_STEPS = 5
"""Uncertainty of the onset of a cause, in steps; chosen by hand: an onset that
is read from a trend or from sampled steps is that uncertain."""

SLACK_SHARE = 1 / 3
"""Share of the detection time of an effect by which its cause may begin later; chosen by hand: a
rule that evaluates a long range of steps cannot date its finding better."""

LONG_STEPS = 100
"""Minimum number of steps for which a cause that has ended must have been active; chosen by hand.
"""

WITHOUT_RECOVERY = ("ACT201",)
"""Faults that outlive their cause, so the cause may have been active for a short time: dead units
get no gradient.
"""

COMPUTED = ("NUM005", "NUM003", "NUM004", "NUM001", "NUM002")
"""Order in which non-finite values spread within a step: from the inputs and the weights
through the modules to the loss, and from there to the gradients."""

EXACT_FAMILIES = ("NUM",)
"""Rule families whose onsets are exact to the step: no slack is given to their causes."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A root cause and its effects; both are fingerprints.

    `severity` is the worst of root and effects, `step` the onset of the root, `sentence`
    names the root.
    """

    root: str
    effects: tuple[str, ...]
    sentence: str
    severity: Severity
    step: int


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Findings with `causes` and `caused_by` filled in, and the resulting stories.

    Findings and stories are sorted: worst severity first, then earliest step.
    """

    findings: tuple[Finding, ...]
    stories: tuple[Story, ...]


def diagnose(findings: Sequence[Finding], explains: Mapping[str, frozenset[str]]) -> Diagnosis:
    """Link findings that explain each other.

    A finding causes another if its rule explains the other's rule, they share a worker, and its
    onset is not later (with some tolerance for estimated onsets). A note (info) explains only
    notes. The exception is a note that was more severe when the effect began, was active for long
    unless the effect does not recover, and has ended since, if no other finding explains the
    effect.

    Args:
        findings: findings of one run, one per fingerprint.
        explains: codes of the rules whose findings a rule causes, by rule code.
    """
    ordered = sorted(findings, key=_order)
    effects = _effects(ordered, explains)
    causes_of: dict[int, list[int]] = {i: [] for i in range(len(ordered))}
    for cause, targets in effects.items():
        for target in targets:
            causes_of[target].append(cause)
    linked = tuple(
        msgspec.structs.replace(
            finding,
            causes=tuple(dict.fromkeys(ordered[e].code for e in effects[i])),
            caused_by=tuple(dict.fromkeys(ordered[c].code for c in causes_of[i])),
        )
        for i, finding in enumerate(ordered)
    )
    stories = [
        _story(linked[i], [linked[e] for e in _reachable(i, effects)])
        for i in range(len(linked))
        if not causes_of[i]
    ]
    over = {finding.fingerprint for finding in linked if PASSED in finding.evidence}
    stories.sort(key=lambda story: (story.severity.rank, _is_over(story, over), story.step))
    return Diagnosis(findings=linked, stories=tuple(stories))


def verdict(diagnosis: Diagnosis, *, steps: int, unit: str = "step", others: bool = False) -> str:
    """Return one sentence: the worst root cause, or that nothing was found.

    Args:
        diagnosis: diagnosis of the run.
        steps: number of evaluated train steps, or of rows of a probe.
        unit: what `steps` counts.
        others: whether some rules were switched off, so that the verdict covers only the others.
    """
    roots = problems(diagnosis)
    if roots:
        more = len(roots) - 1
        return roots[0].sentence + (f" {more} more problem{'s' * (more > 1)}." if more else "")
    counted = f"{steps:,} {unit}" + "s" * (steps != 1)
    notes = len(diagnosis.stories)
    if notes:
        return f"No error or warning in {counted}, {notes} note{'s' * (notes > 1)}."
    if others:
        return f"The other rules found nothing wrong in {counted}."
    return f"Nothing wrong was found in {counted}."


def problems(diagnosis: Diagnosis) -> tuple[Story, ...]:
    """Return the stories that are more than notes, worst first."""
    return tuple(story for story in diagnosis.stories if story.severity is not Severity.INFO)


def _order(finding: Finding) -> tuple[int, int, str, str]:
    return finding.severity.rank, finding.step, finding.code, finding.fingerprint


def _effects(
    findings: Sequence[Finding], explains: Mapping[str, frozenset[str]]
) -> dict[int, list[int]]:
    """Return, for each finding, the indices of the findings it explains; the graph has no cycle."""
    effects: dict[int, list[int]] = {i: [] for i in range(len(findings))}
    by_onset = sorted(range(len(findings)), key=lambda i: _onset(findings[i]))
    pairs = [
        (cause, effect)
        for cause in by_onset
        for effect in by_onset
        if _explains(findings[cause], findings[effect], explains)
    ]
    usual = [pair for pair in pairs if not _is_milder(*(findings[i] for i in pair))]
    explained = {effect for _, effect in usual}
    for cause, effect in usual:
        if cause not in _reachable(effect, effects):
            effects[cause].append(effect)
    for cause, effect in pairs:
        passed = _is_milder(findings[cause], findings[effect])
        if passed and effect not in explained and cause not in _reachable(effect, effects):
            effects[cause].append(effect)
    return effects


def _explains(cause: Finding, effect: Finding, explains: Mapping[str, frozenset[str]]) -> bool:
    if cause is effect or effect.code not in explains.get(cause.code, frozenset()):
        return False
    if not set(cause.workers) & set(effect.workers):
        return False
    if _is_milder(cause, effect):
        passed_at = cause.evidence.get(PASSED)
        if not isinstance(passed_at, int) or passed_at <= effect.step:
            return False
        if passed_at - cause.step < LONG_STEPS and effect.code not in WITHOUT_RECOVERY:
            return False
    if cause.code in explains.get(effect.code, frozenset()):
        return _onset(cause) < _onset(effect)  # each may cause the other
    return cause.step <= effect.step + _slack_steps(effect)


def _is_milder(cause: Finding, effect: Finding) -> bool:
    """Return whether a note would explain a warning or an error."""
    return cause.severity is Severity.INFO and effect.severity is not Severity.INFO


def _onset(finding: Finding) -> tuple[int, int, str]:
    """Sort key of an onset: the step, then the order of computation, then the code."""
    place = COMPUTED.index(finding.code) if finding.code in COMPUTED else len(COMPUTED)
    return finding.step, place, finding.code


def _slack_steps(effect: Finding) -> float:
    if effect.code.startswith(EXACT_FAMILIES):
        return 0
    return max(ONSET_SLACK_STEPS, SLACK_SHARE * (effect.detected_step - effect.step))


def _reachable(start: int, effects: Mapping[int, Sequence[int]]) -> list[int]:
    found: dict[int, None] = {}
    waiting = list(effects[start])
    while waiting:
        index = waiting.pop(0)
        if index not in found:
            found[index] = None
            waiting.extend(effects[index])
    return list(found)


def _story(root: Finding, effects: Sequence[Finding]) -> Story:
    followed = sorted(effects, key=lambda f: (f.step, f.code))
    severity = min([root, *followed], key=lambda f: f.severity.rank).severity
    return Story(
        root=root.fingerprint,
        effects=tuple(f.fingerprint for f in followed),
        sentence=sentence_of(root),
        severity=severity,
        step=root.step,
    )


def in_story_order(findings: Sequence[Finding], stories: Iterable[Story]) -> list[Finding]:
    """Return findings ordered by story: each root, then its effects, then all other findings."""
    known = {finding.fingerprint: finding for finding in findings}
    wanted = [name for story in stories for name in (story.root, *story.effects)]
    ordered = [known[name] for name in dict.fromkeys(wanted) if name in known]
    return ordered + [finding for finding in findings if finding.fingerprint not in wanted]


def sentence_of(finding: Finding) -> str:
    """Return one sentence with the fault, its layer, first step, numbers, and line."""
    first = finding.layers[0] if finding.layers else ""
    where = f" in {layer_in_words(first)}" if first else ""
    more = len(finding.layers) - 1
    where += f" and {more} more" if more > 0 else ""
    name = fault_name(finding)
    text = f"{name[0].upper()}{name[1:]}{where}" + when(finding)
    text += f": {finding.message.rstrip('.')}" if finding.message else ""
    return text + (f" ({finding.location})." if finding.location else ".")


def _is_over(story: Story, over: Collection[str]) -> bool:
    """Return whether a fault and all its effects have ended."""
    return all(fingerprint in over for fingerprint in (story.root, *story.effects))


def when(finding: Finding) -> str:
    """Return ` since step 12`, or ` from step 12 to 30` for a fault that has ended.

    A fault whose onset is known only as a range gives ` since a step between 12 and 20`. Faults of
    boosted trees have rounds instead of steps.

    Returns "" for findings that belong to no step.
    """
    if not finding.has_step:
        return ""
    passed = finding.evidence.get(PASSED)
    if isinstance(passed, int) and passed > finding.step:
        return f" from {finding.unit} {finding.step} to {passed}"
    if finding.latest_onset > finding.step:
        return f" since a {finding.unit} between {finding.step} and {finding.latest_onset}"
    return f" since {finding.unit} {finding.step}"


def fault_name(finding: Finding) -> str:
    """Return the name of a finding's rule in words."""
    name = finding.title or finding.name.replace("nonfinite", "non-finite").replace("_", " ")
    # For other rules, the mode is part of the fault: overfitting, training mode in evaluation.
    apart = finding.code.startswith(EXACT_FAMILIES) and finding.mode == "eval"
    return f"{name} of evaluation" if apart else name
