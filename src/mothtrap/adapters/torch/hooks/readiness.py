"""Facts that observers can report, given the parts of training that have run so far.

A script may only report its losses. Then no forward is observed, so the absence of a module that
turns finite values into NaN proves nothing.
"""

from __future__ import annotations

from typing import Final

from mothtrap.adapters.torch.hooks.reports import IN_EACH_STEP, IN_FULL_STEPS
from mothtrap.core.fact import Fact
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.facts.data import BorderClasses, InputDistribution, NonfiniteInput
from mothtrap.core.facts.epochs import MetricWatched
from mothtrap.core.facts.evaluations import (
    BootstrappedTargets,
    CopyLag,
    EqualStates,
    EqualViews,
    EvaluatedCopy,
    Evaluation,
    EvaluationNorms,
    EvaluationPhase,
    LabelledOutputs,
    LossRowsShared,
    NormAverages,
    NormBatches,
    TeacherMode,
    TrainingMode,
)
from mothtrap.core.facts.layers import (
    AttentionAxis,
    AttentionLook,
    DataTaken,
    ForwardScales,
    IdenticalUnits,
    ImageChannels,
    MaskOfOnes,
    OutputSpread,
    PaddingWeights,
    PositionAxis,
    RouterLoad,
    RowTaken,
    SequenceAxes,
    UnitInputs,
)
from mothtrap.core.facts.loss_terms import (
    AgreeingLosses,
    CodeNoise,
    DetachedTerm,
    GradientPenalty,
    OverlapAdded,
    OverlapBroadcast,
    OverlapOfScores,
    ShareAdded,
)
from mothtrap.core.facts.losses import LossCall, MixedAxes, TokenShares
from mothtrap.core.facts.memory import EvaluationGraphsKept, LossesKept
from mothtrap.core.facts.modules import (
    AliasedCopy,
    FreezeWithoutEffect,
    FrozenParameters,
    HalfPrecision,
    HiddenParameters,
    RepeatedModule,
    UnreachedModule,
    ZeroSlope,
)
from mothtrap.core.facts.nonfinite import FiniteOutputs, FirstBadOperation, NonfiniteModule
from mothtrap.core.facts.optimizers import (
    ClippedLate,
    GradientsCleared,
    IdleOptimizer,
    MicroBatchesCleared,
    OptimizerFacts,
    RoundedUpdates,
    ScheduleEnded,
    UnownedParameter,
    UpdateDirection,
)
from mothtrap.core.facts.pairs import (
    DistancesAsScores,
    MarginLoss,
    OneSidedPairs,
    OwnRowCompetes,
    SimilarityLoss,
)
from mothtrap.core.facts.policies import PolicyEntropy, PolicyLoss, UnreadEnds
from mothtrap.core.facts.targets import (
    CtcLabels,
    MirroredTargets,
    NoisePrediction,
    ShiftedTargets,
    SoftTargets,
    TrainedTarget,
)
from mothtrap.core.facts.workers import RestoredNothing, UnmatchedState

Facts = tuple[type[Fact], ...]

OF_FORWARDS: Final = frozenset(
    (
        *(NonfiniteModule, FiniteOutputs, FirstBadOperation, NonfiniteInput, InputDistribution),
        *(Evaluation, EvaluationPhase, EvaluationNorms, EvaluationGraphsKept, EvaluatedCopy),
        *(TrainingMode, NormBatches, NormAverages, BootstrappedTargets, EqualStates),
        *(CopyLag, EqualViews, LabelledOutputs, LossRowsShared, TeacherMode),
        *(UnreachedModule, HiddenParameters, FrozenParameters, HalfPrecision),
        *(
            AttentionAxis,
            AttentionLook,
            DataTaken,
            ForwardScales,
            IdenticalUnits,
            OutputSpread,
            RouterLoad,
        ),
        *(UnitInputs, IdleOptimizer, UnownedParameter, MaskOfOnes, MixedAxes, SequenceAxes),
        *(AliasedCopy, CodeNoise, FreezeWithoutEffect, ImageChannels, NoisePrediction),
        PositionAxis,
    )
)
"""Facts that require a model's forward pass."""
OF_BACKWARDS: Final = frozenset(
    (
        *(LossCall, MarginLoss, MixedAxes, OverlapAdded, PolicyEntropy, PolicyLoss, TokenShares),
        *(AliasedCopy, CodeNoise, LossesKept, GradientsCleared, MicroBatchesCleared),
        *(MirroredTargets, NoisePrediction, OwnRowCompetes, ShareAdded),
        *(CtcLabels, DistancesAsScores, GradientPenalty, OverlapBroadcast),
        *(OverlapOfScores, PaddingWeights, SoftTargets),
        *(BorderClasses, RowTaken, ShiftedTargets, ZeroSlope),
    )
)
"""Facts that require a backward pass."""
OF_OPTIMIZERS: Final = frozenset(
    (
        *(
            AgreeingLosses,
            ClippedLate,
            OptimizerFacts,
            RoundedUpdates,
            ScheduleEnded,
            UpdateDirection,
        ),
        *(DetachedTerm, OneSidedPairs, RepeatedModule, RestoredNothing, SimilarityLoss),
        *(MetricWatched, TrainedTarget, UnmatchedState, UnreadEnds, UpdateDropped),
    )
)
"""Facts that require an optimizer step, or an update by hand."""


class Readiness:
    """The facts that can occur in this job, given its progress so far.

    Attributes:
        in_each_step: facts that are also observed in light steps.
        in_full_steps: facts that are observed in full steps only.
        waits: a part of training has not been observed yet.
    """

    def __init__(self) -> None:
        self.in_each_step: Facts = ()
        self.in_full_steps: Facts = ()
        self.waits = True
        self._seen: tuple[bool, ...] = ()

    def saw(self, *, forwards: bool, backwards: bool, optimizers: bool) -> None:
        """Record which parts of training the job has run so far."""
        seen = forwards, backwards, optimizers
        if seen == self._seen:
            return
        self._seen, self.waits = seen, not all(seen)
        parts = zip(seen, (OF_FORWARDS, OF_BACKWARDS, OF_OPTIMIZERS), strict=True)
        unseen = frozenset[type[Fact]]().union(
            *(facts for was_seen, facts in parts if not was_seen)
        )
        self.in_each_step = tuple(fact for fact in IN_EACH_STEP if fact not in unseen)
        self.in_full_steps = tuple(fact for fact in IN_FULL_STEPS if fact not in unseen)
