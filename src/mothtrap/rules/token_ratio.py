"""DAT508: one token fills most of the sequences."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.facts.losses import LossCall, TokenShares
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import is_classifier

MASKED_PART = 0.5
"""Part of the padded share that the loss must ignore; chosen by hand: targets and inputs are
shifted against each other, and counted in different batches."""
SAME_LOOKS, SAME = 3, 0.05
"""Latest samples, and the relative spread below which outputs are equal; chosen by hand."""
SHORTEST = 4
"""Tokens of the shortest sequences whose shares are recorded."""
SKIPS = "Let the model skip"
"""Beginning of the fix for models that do not mask padding."""
EXCLUDES = "Exclude padding"
"""Beginning of the fix for losses that count padding."""
CHOOSING = frozenset({"mul", "index", "masked_select"})
"""Operations that weight or select the losses of single positions."""


@frozen
class TokenRatio(Rule):
    """One token fills most of the sequences.

    What it detects:
        Tokens, by default 0 (usually padding), that make up more than a given share of an integer
        input of the model.

    Why it matters:
        The model processes padding like all other tokens. If most of a batch is padding, most of
        the time is wasted. If padding also counts in the loss, the model learns to predict padding.
        Many unknown tokens mean that the vocabulary does not fit the text.

    Fires:
        Warning, over at least `samples` tokens, when the share of one of `token_values` is above
        its entry in `token_thresholds_percent` (the last entry applies to all further tokens). Info
        when the loss ignores that many positions, the model packs its sequences, or each sequence
        has one label, because padding then only costs time, as long as the model masks it. If the
        model outputs (nearly) the same for each sequence, it does not mask padding, and the finding
        is a warning. Also a warning when a label that occurs only at the ends of sequences of
        different lengths counts in the loss and fills `padded_share` of the targets.

    Stays quiet:
        Models that read no integers in rows of four or more. Inputs of two values, such as masks. A
        token that is not among the 16 most frequent tokens counts as absent. Labels that also occur
        inside sequences, such as dark pixels, do not count as padding.

    What to do:
        - Sort examples by length into buckets, or pad each batch only to its longest example.
        - PyTorch: Exclude padding from the loss: `ignore_index` of `cross_entropy`.
        - Keras: Exclude padding from the loss: `ignore_class`, or `Embedding(mask_zero=True)`.
        - PyTorch: Let the model skip padding: `pack_padded_sequence` for recurrent layers, a mask
          for attention and means.
        - Keras: Let the model skip padding: `Embedding(..., mask_zero=True)`, or pad in front.
        - If the token means "unknown", check the tokenizer.

    Example:
        x = pad_sequence(sentences, padding_value=0)[:, :512]      # of 40 tokens each
        x = pad_sequence(batch, padding_value=0)                   # as long as needed

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """

    code = "DAT508"
    needs = (
        Need(facts=(TokenShares,)),
        Need(facts=(LossCall, OutputSpread), optional=True),
    )
    explains = ("constant_output", *UNLEARNED)

    token_values: str = threshold(
        "0", unit="tokens, separated by commas", source="default of SageMaker Debugger"
    )
    token_thresholds_percent: str = threshold(
        "50", unit="percentages, separated by commas", source="default of SageMaker Debugger"
    )
    padded_share: float = threshold(
        0.3, unit="of the targets", source="chosen by hand: the average of the loss hides the rest"
    )
    samples: int = threshold(500, unit="tokens", source="chosen by hand: a few short batches")

    def check(self, window: Window) -> list[Finding]:
        """Compare the shares of the configured tokens with their limits."""
        seen = [shares for shares in window.seen(TokenShares) if len(shares.shares) > 2]
        if not seen:
            if any(True for _ in window.seen(TokenShares)):
                raise NotApplicable("the model's integer inputs have at most two values")
            raise NotApplicable("no model reads sequences of integers")
        limits = self._limits()
        by_argument: dict[str, list[TokenShares]] = defaultdict(list)
        for shares in seen:
            by_argument[shares.argument].append(shares)
        enough = False
        for argument, same in by_argument.items():
            count = sum(shares.count for shares in same)
            if count < self.samples:
                continue
            enough = True
            for token, limit in limits.items():
                share = sum(s.shares.get(token, 0.0) * s.count for s in same) / count
                if 100 * share > limit:
                    return [self._finding(window, same, argument, token, share, limit)]
        if not enough:
            raise NotEnoughData(f"fewer than {self.samples} tokens were recorded")
        return self._padded_targets(window)

    def _padded_targets(self, window: Window) -> list[Finding]:
        """Report a loss that counts the labels with which sequences are padded."""
        calls = _counting_padding(window)
        if len(calls) < SAME_LOOKS or _weights_positions(window):
            return []
        padding = [call.targets.padding for call in calls if call.targets is not None]
        found = [one for one in padding if one is not None]
        share = float(np.median([share for _, share in found]))
        if len({label for label, _ in found}) > 1 or share < self.padded_share:
            return []
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                title="padding counts in the loss",
                step=calls[0].step,
                last_step=calls[-1].step,
                count=len({call.step for call in calls}),
                message=(
                    f"{share:.0%} of the targets are token {found[0][0]}, which pads sequences at "
                    f"their ends and counts in the loss (limit {self.padded_share:.0%})"
                ),
                fixes=self._advice(window, is_note=False, drowned=False, counts=True),
                evidence={
                    "value": 100 * share,
                    "limit": 100 * self.padded_share,
                    "token": found[0][0],
                },
                location=calls[0].location,
            )
        ]

    def _limits(self) -> dict[int, float]:
        """Return percent by token.

        Raises:
            NotApplicable: The settings are not numbers.
        """
        try:
            tokens = [int(text) for text in str(self.token_values).split(",")]
            percents = [float(text) for text in str(self.token_thresholds_percent).split(",")]
        except ValueError as err:
            raise NotApplicable(
                "token_values and token_thresholds_percent must be numbers separated by commas"
            ) from err
        percents += percents[-1:] * (len(tokens) - len(percents))
        return dict(zip(tokens, percents, strict=False))

    def _finding(
        self,
        window: Window,
        seen: list[TokenShares],
        argument: str,
        token: int,
        share: float,
        limit: float,
    ) -> Finding:
        masked, of_rows = _is_masked(window, share), _is_of_whole_sequences(window, seen)
        drowned = of_rows and _has_equal_outputs(window)
        counts = bool(_counting_padding(window)) and not masked
        out = "; the loss ignores them" if masked else ""
        if counts:
            out = ", and the loss counts them"
        packed = not counts and all(shares.packed for shares in seen)
        if packed:
            out = "; the model packs its sequences, so it skips them"
        if of_rows:
            out = "; the loss has one label per sequence"
        if drowned:
            out = ", and the model's output is the same for each sequence: it may not mask them"
        is_note = (masked or of_rows or packed) and not drowned
        return self.finding(
            window,
            severity=Severity.INFO if is_note else Severity.WARNING,
            title="mostly padding" if token == 0 else "",
            step=seen[0].step,
            last_step=seen[-1].step,
            count=len({shares.step for shares in seen}),
            message=(
                f"{share:.0%} of the tokens in input {argument} are {token} "
                f"(limit {limit:g} %){out}"
            ),
            fixes=self._advice(window, is_note=is_note, drowned=drowned, counts=counts),
            evidence={"value": 100 * share, "limit": limit, "token": token, "argument": argument},
            location=next((call.location for call in window.seen(LossCall)), None),
        )

    def _advice(
        self, window: Window, *, is_note: bool, drowned: bool, counts: bool
    ) -> tuple[str, ...] | None:
        """Return the fixes; None for the rule's own fixes."""
        every = self.fixes(window)
        if drowned:
            return tuple(fix for fix in every if fix.startswith(SKIPS)) + every[:1]
        if counts and not is_note:
            excluding = tuple(fix for fix in every if fix.startswith(EXCLUDES))
            return excluding + tuple(fix for fix in every if fix not in excluding)
        return every[:1] if is_note else None


def _has_equal_outputs(window: Window) -> bool:
    """Return whether the latest outputs of a model are nearly the same for different rows."""
    every = [look for look in window.seen(OutputSpread) if look.inputs_differ]
    latest = [
        look for look in every if (look.root, look.place) == (every[-1].root, every[-1].place)
    ][-SAME_LOOKS:]
    if len(latest) < SAME_LOOKS:
        return False
    return all(look.largest <= SAME * max(look.rms, 1e-30) for look in latest)


def _is_of_whole_sequences(window: Window, seen: list[TokenShares]) -> bool:
    """Return whether all class losses in training have one label per sequence."""
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    tokens = {shares.step: shares.count for shares in seen}
    rows = [(call.prediction_shape, tokens[call.step]) for call in calls if call.step in tokens]
    if rows and all(
        shape is not None and len(shape) == 2 and count >= SHORTEST * shape[0]
        for shape, count in rows
    ):
        return True
    return any(map(is_classifier, calls)) and all(
        is_classifier(call) for call in calls if call.operation != "elementwise"
    )


def _is_masked(window: Window, share: float) -> bool:
    """Return whether the training losses leave out most of these positions.

    They ignore labels, or weight or select single positions before averaging.
    """
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    ignored = [call.targets.ignored_share or 0.0 for call in calls if call.targets is not None]
    if ignored and float(np.median(ignored)) >= MASKED_PART * share:
        return True
    return _weights_positions(window)


def _weights_positions(window: Window) -> bool:
    """Return whether a training loss weights or selects positions before it averages."""
    return any(
        call.reduction == "none" and not CHOOSING.isdisjoint(call.above or ())
        for call in window.seen(LossCall)
        if call.mode is Mode.TRAIN
    )


def _counting_padding(window: Window) -> list[LossCall]:
    """Return the training losses that count padding at the ends of sequences."""
    return [
        call
        for call in window.seen(LossCall)
        if call.mode is Mode.TRAIN and call.targets is not None and call.targets.padding is not None
    ]
