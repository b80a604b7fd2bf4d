"""Explain errors about indices and labels that have no row, class or output."""

from __future__ import annotations

import re

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import not_finite, wording
from mothtrap.adapters.torch.explaining.explanation import (
    Explanation,
    explain_expression,
)
from mothtrap.adapters.torch.explaining.scene import Call, Scene
from mothtrap.adapters.torch.explaining.sources import Sources, arguments, first_tensor
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses.failed_loss import failed_loss
from mothtrap.adapters.torch.source.bad_values import is_finite
from mothtrap.core.facts.losses import FailedLoss

_LABELS = re.compile(
    r"Target -?\d+ is out of bounds|all elements of (target|input) should be between 0 and 1"
)
_INDICES = re.compile(
    r"index out of range in self|is out of bounds for dimension|not in the valid range"
    r"|Class values must be (smaller|non-negative)"
)
_ASSERT = "device-side assert triggered"
_CLASS_LOSSES = ("cross_entropy", "nll_loss")


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception about indices or labels; None for other exceptions."""
    if _ASSERT in scene.message:
        return _asserted(scene, sources)
    if _LABELS.search(scene.message):
        failed = failed_loss(scene.error, 0)
        return _labels(scene, sources, failed) if failed is not None else None
    if not _INDICES.search(scene.message):
        return None
    call = scene.subject
    if call is not None and isinstance(call.module, nn.Embedding | nn.EmbeddingBag):
        return _embedding(scene, sources, call, call.module)
    needs = scene.message.splitlines()[0]
    fixes = ("print the smallest and the largest index before this line",)
    return explain_expression("index", scene, sources, needs, fixes)


def _embedding(
    scene: Scene, sources: Sources, call: Call, module: nn.Embedding | nn.EmbeddingBag
) -> Explanation | None:
    given = first_tensor(call)
    if given is None:
        return None
    name, index = given
    size = module.num_embeddings
    sentence = f"{sources.named(module)} got {name} of shape {wording.shape(index)}"
    fixes = [f"match the model to the tokenizer: nn.Embedding(len(tokenizer), ...), not {size}"]
    if is_plain(index) and index.device.type == "cpu" and index.numel():
        least, greatest = int(index.min()), int(index.max())
        sentence += f" with indices from {least} to {greatest}"
        wrong = (index < 0) | (index >= size)
        sentence += _rows(wrong, sources)
        if least < 0:
            fixes = ["if -1 or -100 means padding: masked_fill(ids < 0, 0), and mask them later"]
        elif greatest == size:
            fixes = [f"count from 0, or make it nn.Embedding({size + 1}, ...)", *fixes]
    made = sources.told(index, scene)
    sentence += f": it has only rows 0 to {size - 1}" + (f"; it {made}" if made else "")
    return Explanation(
        kind="index",
        sentence=sentence,
        fixes=tuple(fixes),
        module=module,
        inputs=wording.inputs_in_words(arguments(call)),
    )


def _labels(scene: Scene, sources: Sources, failed: FailedLoss) -> Explanation | None:
    found = scene.function(*_CLASS_LOSSES, "binary_cross_entropy")
    given = found.variables.get("input") if found is not None else None
    target = found.variables.get("target") if found is not None else None
    if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor):
        return None
    where = f" ({scene.location})" if scene.location else ""
    of_input = "of input" in scene.message
    sentence = f"{failed.operation}{where} got "
    if failed.classes is not None:
        last = failed.classes - 1
        sentence += f"labels from {failed.least:g} to {failed.greatest:g}"
        beyond = (target < 0) | (target > last) if is_plain(target) else None
        sentence += _rows(beyond, sources)
        sentence += f": the predictions have only classes 0 to {last}"
        fixes = _class_fixes(failed, target)
    else:
        wrong = given if of_input else target
        if is_finite(wrong) is False:
            return _not_a_number(scene, sources, failed.operation, wrong, of_input=of_input)
        name = "predictions" if of_input else "targets"
        least = failed.predicted_least if of_input else failed.least
        greatest = failed.predicted_greatest if of_input else failed.greatest
        sentence += f"{name} from {least:g} to {greatest:g}"
        sentence += _rows((wrong < 0) | (wrong > 1) if is_plain(wrong) else None, sources)
        sentence += ": it accepts 0 to 1"
        fixes = (
            ("use binary_cross_entropy_with_logits, which takes raw scores",)
            if of_input
            else ("map the targets to 0 and 1: (y > 0).float() for -1 and 1, y / 255 for images",)
        )
    made = sources.told(given, scene)
    return Explanation(
        kind="label",
        sentence=f"{sentence}; the prediction {made}" if made else sentence,
        fixes=fixes,
        inputs=wording.inputs_in_words([("input", given), ("target", target)]),
    )


def _not_a_number(
    scene: Scene, sources: Sources, operation: str, wrong: torch.Tensor, *, of_input: bool
) -> Explanation:
    """Report that a loss got NaN, and the line that produced it, if a variable shows this."""
    where = f" ({scene.location})" if scene.location else ""
    name = "predictions" if of_input else "targets"
    count = int(wrong.detach().isnan().sum())
    sentence = f"{operation}{where} got {name} that contain NaN ({count:,} of {wrong.numel():,})"
    seen = not_finite.operation_behind(scene, sources)
    if seen is not None:
        sentence += f": {not_finite.in_words(seen)}"
        fixes = [not_finite.fix_of(seen)]
    else:
        made = sources.told(wrong, scene)
        sentence += f"; the {name[:-1]} {made}" if made else ""
        sentence += "; their origin is unknown"
        fixes = [not_finite.REPLAY_NAMES_IT]
    return Explanation(
        kind="label",
        sentence=sentence,
        fixes=tuple(fixes),
        inputs=wording.inputs_in_words([("target" if not of_input else "input", wrong)]),
    )


def _class_fixes(failed: FailedLoss, target: torch.Tensor) -> tuple[str, ...]:
    least, greatest = failed.least or 0.0, failed.greatest or 0.0
    classes = failed.classes or 0
    if least < 0:
        return ("if these labels should be ignored, pass ignore_index=" + f"{least:g}",)
    if least >= 1 and greatest == classes:
        return ("number the classes from 0: y - 1",)
    values = torch.unique(target).tolist() if is_plain(target) else []
    if 255 in values and max(values[:-1], default=0) in range(1, classes):
        return ("if 255 marks pixels without a class, pass ignore_index=255",)
    if 2 <= len(values) <= classes and target.numel() >= MIN_LABELS:
        listed = " and ".join(f"{value:g}" for value in values)
        return (f"map the labels {listed} to class numbers from 0 on",)
    return (
        f"give the model {greatest + 1:g} outputs, or check where this label was read",
        "number the classes from 0",
    )


MIN_LABELS = 64
"""Labels that are expected to show every class, such as the pixels of a mask. Chosen by hand."""


def _rows(wrong: torch.Tensor | None, sources: Sources) -> str:
    """Describe the faulty rows of a batch, and their samples."""
    if wrong is None or not wrong.ndim or not bool(wrong.any()):
        return ""
    rows = wrong.flatten(1).any(1) if wrong.ndim > 1 else wrong
    numbers = rows.nonzero().flatten().tolist()
    text = f"row{'' if len(numbers) == 1 else 's'} {wording.listed(numbers)}"
    samples = sources.samples()
    if len(samples) == len(rows):
        text += f": {wording.samples([samples[number] for number in numbers])}"
    return f" (wrong in {text})"


def _asserted(scene: Scene, sources: Sources) -> Explanation:
    inside = scene.innermost
    near = f" near {sources.named(inside.module)}" if inside is not None else ""
    return Explanation(
        kind="index",
        sentence=(
            f"the GPU stopped on an assertion, noticed{near} but raised by an earlier operation: "
            "usually an embedding index or a label that is out of range"
        ),
        fixes=(
            "run one step on the CPU, or with CUDA_LAUNCH_BLOCKING=1: both show the line",
            "check labels and token ids against the number of classes and of embeddings",
        ),
        module=inside.module if inside is not None else None,
    )
