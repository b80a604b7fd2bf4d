"""LOS415: a term of the loss trains nothing."""

from __future__ import annotations

from mothtrap.core.facts.loss_terms import DetachedTerm
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

GRADIENT_PENALTIES = ("gradient", "grad_pen", "gradpen")
"""Parts of names of gradient penalties; `gp` is a whole word of others."""


@rule(
    "LOS415",
    title="a loss term trains nothing",
    needs=[Need(facts=(DetachedTerm,)), Need(facts=(LossSeries,), optional=True)],
    explains=("constant_output", "weight_growth", "activation_growth", "loss_not_decreasing"),
)
def detached_term(
    window: Window, *, looks: int = threshold(4, unit="backward passes", source="chosen by hand")
) -> Found | None:
    """A term of the loss trains nothing.

    What it detects:
        A loss that is a sum in which one term has no gradient, or has a gradient only for
        parameters that the optimizer does not hold. Other terms of the sum train the model. Also a
        term that compares two equal tensors, such as the output of a teacher with itself.

    Why it matters:
        The term changes the printed loss, but not the weights. A penalty does not penalize, and a
        generator does not learn from its discriminator.

    Fires:
        Warning when the term trained nothing in at least `looks` observed backward passes of the
        line, and its value changed between them. Also when the two arguments of the call that
        computes the term had no gradient and were equal in each of them.

    Stays quiet:
        For terms that are constant or 0, such as an offset or a penalty that is switched off. For
        terms that reach the optimizer in some steps. For sums that are written neither in the
        function that calls `backward` nor in one that returns the loss to it.

    What to do:
        - PyTorch: Compute the term from the output of the model: remove the `.detach()`, `.item()`,
          `.data`, or `torch.no_grad()` on its way.
        - PyTorch: For a gradient penalty, call `torch.autograd.grad(..., create_graph=True)`.
        - PyTorch: For a generator, give the discriminator its output without `.detach()`.
        - If the term is only for display, leave it out of the loss that calls `backward`.
        - Compare the output of the model that is trained with its target. Here, both arguments are
          the target.
        - Keras, JAX: Compute the term from the output of the model, without `stop_gradient` or a
          conversion to NumPy.

    Example:
        loss = reconstruction + 0.1 * kl.detach()     # the KL term trains nothing

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
    """
    terms = [
        one
        for one in window.seen(DetachedTerm, steps=looks)
        if one.looks >= looks and (len(set(one.values)) > 1 or one.equal is not None)
    ]
    if not terms:
        return None
    first = terms[0]
    names = ", ".join(dict.fromkeys(one.term for one in terms))
    cut, penalty, generator, display, itself, elsewhere = range(6)  # the bullets of What to do
    fixes: tuple[int, ...]
    if first.equal is not None:
        pair = "` with `".join(first.equal)
        why, fixes = f"compares `{pair}`, which are equal and have no gradient,", (itself,)
    elif first.without_graph == first.looks:
        why, fixes = "has no gradient", (cut, elsewhere, penalty, display)
        if _is_gradient_penalty(first.term):
            fixes = (penalty, cut, elsewhere, display)
    else:
        held = " and ".join(first.optimizers) or "the optimizer"
        why, fixes = f"reaches no parameter of {held}", (generator, cut, elsewhere, display)
    return Found.of(
        first,
        f"{names} in the loss {why} in {first.looks} of {first.looks} backward passes (limit "
        f"{looks}), so the model does not learn from it",
        step=0,
        count=first.looks,
        evidence={
            "terms": len(terms),
            "looks": first.looks,
            "limit": looks,
            "value": first.values[-1],
        },
        fixes=fixes,
    )


def _is_gradient_penalty(term: str) -> bool:
    name = term.lower()
    return any(part in name for part in GRADIENT_PENALTIES) or "gp" in name.split("_")
