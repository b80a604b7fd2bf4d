"""DAT517: all labels are the same class."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import class_calls, label_counts
from mothtrap.rules._losses import has_players

PRODUCTS = frozenset({"sum", "bmm", "dot"})
"""Operations that end the score of a pair of vectors."""
SIGNS = frozenset({"sub", "neg", "rsub"})
NEGATIVES = (
    "Give pairs that belong together the label 1, and drawn pairs the label 0: "
    "`bce(negative_scores, torch.zeros_like(negative_scores))`."
)


@rule(
    "DAT517",
    severity="error",
    needs=[Need(facts=(LossCall,)), Need(scalars=("loss",), optional=True)],
    explains=(
        "class_imbalance",
        "constant_output",
        "learning_rate_too_low",
        "loss_not_decreasing",
        "overtraining",
        "stuck_at_chance",
        "too_good_to_be_true",
        "unshuffled_batches",
        "vanishing_gradient",
        "wrong_initial_loss",
    ),
    passes=True,
)
def labels_of_one_class(
    window: Window,
    *,
    samples: int = threshold(500, unit="labels of two classes", source="as in DAT503"),
    of_several: int = threshold(
        200, unit="labels of more classes", source="chosen by hand: they are rarely so unbalanced"
    ),
    calls: int = threshold(
        8, unit="observed calls", source="chosen by hand: the eighth call is observed by step 57"
    ),
) -> Found | None:
    """All labels are the same class.

    What it detects:
        Labels that are equal for every sample.

    Why it matters:
        The model only learns to predict that class, yet the loss falls to 0.

    Fires:
        Error when all labels in at least `calls` observed calls are one class, and the loss gets
        the output of a linear layer. For two classes, `samples` labels are needed, and for more
        classes `of_several`. Warning if several binary losses of a step score pairs by the product
        of their vectors. The finding ends when another class appears.

    Stays quiet:
        For the real and fake batches of a GAN. For similarity scores, as in contrastive learning,
        in which the first class is always right. For differences of two scores, as in ranking.

    What to do:
        - Check the code that creates the labels: a wrong column, path or pattern gives one class.
        - Shuffle the data if they are sorted by class.

    Example:
        labels = [int("car" in path) for path in paths]      # all paths are in /data/cars
        labels = [int("car" in os.path.basename(path)) for path in paths]

    References:
        Humbatova et al. 2020, Taxonomy of real faults in deep learning systems, "wrong labels",
        https://arxiv.org/abs/1910.11015
    """
    observed = [call for call in class_calls(window) if call.label_counts]
    if not observed:
        raise NotEnoughData("no labels of a class loss were recorded")
    pairs = _are_pairs(observed)
    if has_players(window) or not (pairs or all(_is_linear(call) for call in observed)):
        raise NotApplicable("a single class may be intended, as in a GAN or for similarity scores")
    # of all calls together: in a GAN each call may have one class
    counts_K = label_counts(observed)
    labels = int(counts_K.sum())
    needed = samples if len(counts_K) <= 2 else of_several
    is_early = len({call.step for call in observed}) < calls or labels < needed
    if is_early and (counts_K > 0).sum() == 1:
        raise NotEnoughData(f"needs {needed} labels, saw {labels}")
    if len(counts_K) < 2 or (counts_K > 0).sum() != 1:
        return None
    only = int(counts_K.argmax())
    if pairs:
        return _only_near(observed, only)
    return Found.of(
        observed,
        f"all {labels} labels are class {only}, so the model cannot learn to classify",
        evidence={"class": only, "labels": labels, "classes": len(counts_K)},
    )


def _only_near(calls: list[LossCall], only: int) -> Found:
    losses = len(calls) // len({call.step for call in calls})
    return Found.of(
        calls,
        f"the {losses} losses of pairs of a step have the label {only} for all pairs: they only "
        f"pull pairs {'together' if only else 'apart'}, so equal scores for all pairs are perfect",
        severity="warning",
        evidence={"class": only, "losses": losses},
        fixes=(NEGATIVES,),
    )


def _are_pairs(calls: list[LossCall]) -> bool:
    """Return whether two losses or more of each step score pairs by a product of their vectors.

    A difference of two scores, as in ranking, has the label 1 on purpose.
    """
    products = (
        call.operation.startswith("binary")
        and call.chain[:1]
        and call.chain[0] in PRODUCTS
        and not SIGNS.intersection(call.chain[:3])
        for call in calls
    )
    return len(calls) >= 2 * len({call.step for call in calls}) and all(products)


def _is_linear(call: LossCall) -> bool:
    return next((name for name in call.chain if name not in ("cast", "sigmoid")), "") == "linear"
