"""STR722: a floating-point mask of zeros and ones masks nothing."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.layers import MaskOfOnes
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@frozen
class MaskOfZerosAndOnes(Rule):
    """A floating-point mask of zeros and ones masks nothing.

    What it detects:
        Attention that gets a floating-point mask whose values are all 0 or 1.

    Why it matters:
        A floating-point mask is added to the scores. 0 changes nothing, and 1 makes the weight 2.7
        times as large. Every position sees all others, including later ones, so a language model
        sees its own targets.

    Fires:
        Error when `nn.MultiheadAttention` or `scaled_dot_product_attention` gets a mask that
        contains both 0 and 1 and no other number. In JAX and Keras, also when a script adds such a
        mask to the scores before a softmax.

    Stays quiet:
        Boolean masks. Masks of 0 and minus infinity. Other biases. Trained masks. In PyTorch,
        attention that the script implements by hand.

    What to do:
        - JAX: Select the scores with the mask: `jnp.where(mask, scores, -1e9)`.
        - Keras: Select the scores with the mask: `tf.where(mask, scores, -1e9)`. Or add `-1e9`
          where a position is masked: `scores += (1 - mask) * -1e9`.
        - PyTorch: Pass a boolean mask: `mask.bool()`. In `scaled_dot_product_attention`, True means
          that a position is visible. In `nn.MultiheadAttention`, True means that it is masked.
        - PyTorch: Or add minus infinity at the masked positions:
          `torch.zeros_like(mask).masked_fill(mask == 0, -torch.inf)`.

    Example:
        F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril())
        F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril().bool())

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """

    code = "STR722"
    title = "mask of zeros and ones"
    needs = (Need(facts=(MaskOfOnes,)),)
    explains = ("too_good_to_be_true", "causal_leak", "overfit")

    def check(self, window: Window) -> list[Finding]:
        """Report the first mask of zeros and ones."""
        seen = list(window.seen(MaskOfOnes))
        if not seen:
            raise NotApplicable("no attention layer received a mask of zeros and ones")
        first = seen[0]
        where = f"{first.module} gets" if first.module else "an attention layer gets"
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=first.step,
                layers=(first.module,) if first.module else (),
                message=(
                    f"{where} a floating-point mask of shape {first.shape} that contains only 0 "
                    "and 1: it is added to the scores, so it masks nothing"
                ),
                evidence={"masks": len(seen), "shape": list(first.shape)},
                location=first.location,
            )
        ]
