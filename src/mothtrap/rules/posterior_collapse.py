"""LOS417: the code of a variational autoencoder no longer depends on its input."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

Looks = list[OutputSpread]


@frozen
class PosteriorCollapse(Rule):
    """The code of a variational autoencoder no longer depends on its input.

    What it detects:
        A model that outputs a reconstruction, and the mean and log variance of a code (two outputs
        of the same shape). Both shrink to 0, and the reconstruction becomes equal for all rows of a
        batch. Also an encoder with two outputs whose decoder is a separate model.

    Why it matters:
        The KL term outweighs the reconstruction, so the code is only noise. The decoder learns the
        average of the data, and the loss looks low.

    Fires:
        Warning when in the last `looks` checks, after `steps` steps, the root mean square of two
        outputs of the same shape is below `small`, and another output differs between rows by less
        than `share` of its size, although the inputs differ. Also when both are below `tiny` and
        below `shrunk` of their first size, whatever the decoder outputs. A separate decoder must
        output the same for all rows, and both outputs of its encoder must be that small. Also when
        both are below `weak`, and the spread of the reconstruction between rows is less than `flat`
        of the spread of the input and less than `rising` times the spread that it had after half of
        the steps. Then at least three quarters of the variance are lost. This case needs
        `weak_steps` steps.

    Stays quiet:
        For codes that still use some of their units and give a reconstruction that follows its
        input. For outputs that are larger than the reconstruction, such as the heads of a detector.
        During the first steps, when a code is small because of its initial weights. While
        the reconstruction depends more and more on the row.

    What to do:
        - Reduce both terms in the same way: sum the reconstruction over the elements of a row if
          the KL term is summed, for example `reduction="sum"` for both.
        - Lower the weight of the KL term, or raise it from 0 during the first epochs.

    Example:
        loss = F.mse_loss(out, x) + kl.sum()                    # a mean and a sum
        loss = F.mse_loss(out, x, reduction="sum") + kl.sum()

    References:
        Bowman et al. 2016, Generating sentences from a continuous space,
        https://arxiv.org/abs/1511.06349
    """

    code = "LOS417"
    needs = (Need(facts=(OutputSpread,)),)
    proof = Proof(
        title="Size of the outputs (root mean square)",
        fact=OutputSpread,
        field="rms",
        subject="root",
        reference=("limit",),
        scale="log",
    )
    explains = (
        *UNLEARNED,
        "constant_output",
        "dead_units",
        "disconnected_parameter",
        "overtraining",
        "vanishing_gradient",
    )
    passes = True

    looks: int = threshold(
        2, unit="checks", source="chosen by hand: the interval between checks doubles"
    )
    steps: int = threshold(50, unit="steps", source="chosen by hand")
    small: float = threshold(0.1, unit="root mean square; the prior has 1", source="chosen by hand")
    share: float = threshold(0.1, unit="of the root mean square", source="chosen by hand")
    tiny: float = threshold(0.03, unit="root mean square; the prior has 1", source="chosen by hand")
    shrunk: float = threshold(
        0.3,
        unit="of the first size",
        source="chosen by hand: the elements of unit-length embeddings are small, too",
    )
    weak: float = threshold(
        0.6,
        unit="root mean square; the prior has 1",
        source="chosen by hand: a code that is used has means of about 1 or log variances below -1",
    )
    weak_steps: int = threshold(
        250, unit="steps", source="chosen by hand: in a healthy run, the code is weak at step 150"
    )
    flat: float = threshold(
        0.5, unit="of the spread of the input", source="chosen by hand: a quarter of its variance"
    )
    rising: float = threshold(
        2.0,
        unit="times the spread after half of the steps",
        source="chosen by hand: it grows more once the code is used",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every model with a reconstruction and two outputs of equal shape."""
        roots: dict[str, dict[str, Looks]] = {}
        for look in window.seen(OutputSpread):
            if look.inputs_differ:
                roots.setdefault(look.root, {}).setdefault(look.place, []).append(look)
        candidates = [by_place for by_place in roots.values() if len(by_place) > 2]
        apart = list(_encoders_with_decoders(roots))
        for pair in apart:
            found = self._judge_apart(window, *pair)
            if found is not None:
                return [found]
        if not candidates and not apart:
            if window.total_steps < self.steps:
                raise NotEnoughData(f"needs {self.steps} steps, saw {window.total_steps}")
            raise NotApplicable("no model returns a reconstruction, a mean, and a log variance")
        for by_place in candidates:
            found = self._judge(window, by_place)
            if found is not None:
                return [found]
        candidates += [encoder for encoder, _ in apart]
        every = [looks for by_place in candidates for looks in by_place.values()]
        if max(len(self._late(looks)) for looks in every) < self.looks:
            raise NotEnoughData(f"needs {self.looks} checks after step {self.steps}")
        return []

    def _judge(self, window: Window, by_place: dict[str, Looks]) -> Finding | None:
        late = {place: self._late(looks) for place, looks in by_place.items()}
        known = [looks for looks in late.values() if len(looks) >= self.looks]
        pair = _of_one_shape([looks for looks in known if self._is_below(looks, self.small)])
        if pair is not None:
            others = [looks for looks in known if _may_decode(pair, looks)]
            same = next((looks for looks in others if self._is_constant(looks)), None)
            if same is None and all(self._vanished(looks, by_place) for looks in pair):
                same = next(iter(others), None)
            if same is not None:
                return self._finding(window, pair, same)
        pair = _of_one_shape([looks for looks in known if self._is_below(looks, self.weak)])
        if pair is None:
            return None
        others = [looks for looks in known if _may_decode(pair, looks)]
        flat = next((looks for looks in others if self._is_flat(by_place[looks[-1].place])), None)
        return self._weak(window, pair, flat) if flat else None

    def _judge_apart(
        self, window: Window, encoder: dict[str, Looks], decoder: Looks
    ) -> Finding | None:
        """Check an encoder and a decoder that are separate models."""
        late, output = [self._late(looks) for looks in encoder.values()], self._late(decoder)
        if min(map(len, (*late, output))) < self.looks:
            return None
        pair = _of_one_shape(late)
        if pair is None or not self._is_constant(output):
            return None
        vanished = all(self._vanished(looks, encoder) for looks in pair)
        return self._finding(window, pair, output) if vanished else None

    def _late(self, looks: Looks) -> Looks:
        return [look for look in looks if look.step >= self.steps][-self.looks :]

    def _is_below(self, looks: Looks, limit: float) -> bool:
        return all(look.rms < limit for look in looks)

    def _is_flat(self, looks: Looks) -> bool:
        """Return whether a reconstruction depends little on its input, and no longer grows."""
        last = looks[-1]
        since = [look for look in looks if self.steps <= look.step <= last.step / 2][-1:]
        if last.step < self.weak_steps:
            return False
        little = all(
            look.spread < self.flat * (look.input_spread or 0.0) for look in (*since, last)
        )
        return bool(since) and little and last.spread < self.rising * since[0].spread

    def _vanished(self, late: Looks, by_place: dict[str, Looks]) -> bool:
        """Return whether an output has shrunk so far that rows differ only by noise."""
        first = by_place[late[0].place][0].rms
        return all(look.rms < min(self.tiny, self.shrunk * first) for look in late)

    def _is_constant(self, looks: Looks) -> bool:
        return all(look.spread < self.share * look.rms for look in looks)

    def _finding(self, window: Window, pair: tuple[Looks, Looks], same: Looks) -> Finding:
        share = same[-1].spread / same[-1].rms
        limit = f" (limit {self.share:g})" if share < self.share else ""
        words = f"{share:.2g} of its size{limit}"
        return self._told(window, pair, same, words, limit=self.small, share=share)

    def _weak(self, window: Window, pair: tuple[Looks, Looks], flat: Looks) -> Finding:
        share = flat[-1].spread / (flat[-1].input_spread or 1.0)
        words = f"{share:.2g} of the spread of the input (limit {self.flat:g})"
        return self._told(window, pair, flat, words, limit=self.weak, share=share)

    def _told(
        self,
        window: Window,
        pair: tuple[Looks, Looks],
        looks: Looks,
        words: str,
        *,
        limit: float,
        share: float,
    ) -> Finding:
        mean, deviation = (one[-1] for one in pair)
        last, rms = looks[-1], max(mean.rms, deviation.rms)
        output = f"output {last.place}" if last.root == mean.root else f"the output of {last.root}"
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=tuple(dict.fromkeys((mean.root, last.root))),
            message=(
                f"outputs {mean.place} and {deviation.place} of {mean.root} have shrunk to "
                f"{rms:.2g} (limit {limit:g}; a standard normal prior has 1), and {output} "
                f"differs between rows by {words}: the KL term outweighs the reconstruction"
            ),
            evidence={"rms": rms, "limit": limit, "share": share},
            location=last.location,
        )


def _may_decode(pair: tuple[Looks, Looks], looks: Looks) -> bool:
    """Return whether an output may be a reconstruction from a code, which is not larger."""
    code, output = pair[0][0].shape, looks[0].shape
    return code != output and math.prod(code) <= math.prod(output)


def _of_one_shape(outputs: list[Looks]) -> tuple[Looks, Looks] | None:
    """Return the first two outputs of equal shape (rows, units, ...)."""
    for number, first in enumerate(outputs):
        for second in outputs[number + 1 :]:
            if first[-1].shape == second[-1].shape and len(first[-1].shape) > 1:
                return first, second
    return None


def _encoders_with_decoders(
    roots: dict[str, dict[str, Looks]],
) -> Iterator[tuple[dict[str, Looks], Looks]]:
    """Yield the outputs of each model with two outputs, and the output of each model with one."""
    for encoder in roots.values():
        for decoder in roots.values():
            if len(encoder) == 2 and len(decoder) == 1:
                yield encoder, next(iter(decoder.values()))
