"""DAT522: the training loss uses the labels of the evaluation rows."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase, LossRowsShared
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

SAMPLED = 1 << 16
"""Maximum number of targets of a loss that an adapter inspects."""


@frozen
class EvaluationLabelsTrained(Rule):
    """The training loss uses the labels of the evaluation rows.

    What it detects:
        A model that is called with all rows together, as in graph learning. The training loss uses
        all of its outputs, or rows of a mask or list of indices, although the evaluation loss uses
        some of the same rows.

    Why it matters:
        The model trains on the labels of the evaluation rows, so the evaluation shows how well it
        memorizes them.

    Fires:
        Warning when all of this is true: Every observed training loss has as many rows as the model
        returns. The training data have no further rows. An evaluation returns as many rows from
        the same inputs (`known` of its rows were trained on), and its loss uses less than `part`
        of them. PyTorch: also when the model gets the same data in every call, and at least
        `shared_rows` rows and `shared` of the rows of an evaluation loss are also used by the
        training loss. A note if all its rows are, and other evaluation losses use no such rows.

        If the evaluation computes no loss, the evaluation rows are those of a variable such as
        `test_mask` or `idx_val`, if another variable selects training rows and none of these.

    Stays quiet:
        If the training loss uses other outputs: `output[idx_train]`. For mini-batches, and for an
        evaluation of exactly the training rows.

    What to do:
        - Use only the training rows in the training loss:
          `loss_fn(output[train_mask], labels[train_mask])`.
        - Check that the masks or lists of indices have no row in common:
          `(train_mask & test_mask).sum() == 0`.

    Example:
        loss = F.nll_loss(model(x, adj), labels)                        # all labels
        loss = F.nll_loss(model(x, adj)[idx_train], labels[idx_train])

    References:
        Kipf, Welling 2017, Semi-supervised classification with graph convolutional networks,
        https://arxiv.org/abs/1609.02907
    """

    code = "DAT522"
    title = "training on evaluation labels"
    needs = (
        Need(facts=(LossCall,)),
        Need(facts=(Evaluation,)),
        Need(facts=(EvaluationPhase,)),
        Need(facts=(RowsShared,)),
        Need(facts=(LossRowsShared,), optional=True),
    )
    explains = ("train_eval_overlap", "overtraining", "too_good_to_be_true")

    part: float = threshold(0.9, unit="of the rows", source="chosen by hand")
    known: float = threshold(
        0.95, unit="of the evaluated rows", source="chosen by hand: nearly all inputs are known"
    )

    shared: float = threshold(0.05, unit="of the evaluated rows", source="chosen by hand")
    shared_rows: int = threshold(10, unit="rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the rows of training losses, of the model's outputs, and of evaluation losses."""
        seen = list(window.seen(LossRowsShared))
        indexed = [one for one in seen if not one.mask]
        if indexed:
            return self._of_indices(window, indexed)
        if seen and not any(True for _ in window.seen(Evaluation)):
            return self._of_masks(window, seen)
        trained = [c for c in window.seen(LossCall) if c.mode is Mode.TRAIN and c.prediction_shape]
        phases = [phase for phase in window.seen(EvaluationPhase) if phase.output_shape]
        if not trained or not phases:
            raise NotEnoughData("no evaluation was recorded, only training losses")
        rows = {call.prediction_shape[0] for call in trained if call.prediction_shape}
        count = rows.pop()
        targets = [call.targets.count for call in trained if call.targets is not None]
        if any(number < min(count, SAMPLED) for number in targets):
            raise NotApplicable("the training loss uses only part of the model's output")
        same = {one.module for one in window.seen(RowsShared) if self._is_same(one, count)}
        whole = [p for p in phases if p.module in same and (p.output_shape or (0,))[0] == count]
        if rows or not whole:
            raise NotApplicable("no model is called with all rows in both training and evaluation")
        for one in window.seen(Evaluation):
            if one.calls and one.rows < self.part * count * one.calls:
                return [self._finding(window, one, whole[0], count, trained[-1].location)]
        return []

    def _of_indices(self, window: Window, seen: list[LossRowsShared]) -> list[Finding]:
        """Compare rows that masks or indices select."""
        newest = {one.location: one for one in seen}.values()
        wrong = [one for one in newest if self._is_shared(one)]
        if not wrong:
            return []
        one, apart = wrong[0], any(not other.shared for other in newest)
        chosen = apart and one.shared == one.eval_rows  # perhaps some training rows, on purpose
        return [
            self.finding(
                window,
                severity=Severity.INFO if chosen else Severity.WARNING,
                step=one.step,
                count=one.shared,
                message=(
                    f"the training loss uses the labels of {one.shared} of the {one.eval_rows} "
                    f"rows of this evaluation loss (limit {self.shared:.0%})"
                ),
                evidence={"shared": one.shared, "rows": one.eval_rows, "limit": self.shared},
                location=one.location,
                fixes=self.fixes(window)[1:],
            )
        ]

    def _of_masks(self, window: Window, seen: list[LossRowsShared]) -> list[Finding]:
        """Check the variables that select evaluation rows."""
        wrong = {one.mask: one for one in seen if self._is_shared(one)}
        if not wrong:
            return []
        one = max(wrong.values(), key=lambda each: each.shared)
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=0,
                last_step=one.step,
                count=one.shared,
                message=(
                    f"the training loss uses the labels of {one.shared} of the {one.eval_rows} "
                    f"rows of `{one.mask}` (limit {self.shared:.0%})"
                ),
                evidence={"shared": one.shared, "rows": one.eval_rows, "limit": self.shared},
                location=one.location,
            )
        ]

    def _is_shared(self, one: LossRowsShared) -> bool:
        if one.shared == one.eval_rows == one.train_rows:  # the training rows, on purpose
            return False
        return one.shared >= max(self.shared_rows, self.shared * one.eval_rows)

    def _is_same(self, one: RowsShared, count: int) -> bool:
        """Return whether a model was evaluated on the rows that it trains on, all at once."""
        return (
            one.train_rows <= count
            and one.shared >= self.known * one.eval_rows
            and one.shared >= self.known * one.train_rows
        )

    def _finding(
        self,
        window: Window,
        one: Evaluation,
        phase: EvaluationPhase,
        count: int,
        location: str | None,
    ) -> Finding:
        evaluated = round(one.rows / one.calls)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=one.step,
            layers=(phase.module,),
            message=(
                f"the training loss uses all {count} rows that {phase.module} returns, and the "
                f"evaluation loss uses {evaluated} of the same rows: the model trains on the "
                "labels it is evaluated on"
            ),
            evidence={"rows": count, "evaluated": evaluated, "site": one.site},
            location=location,
        )
