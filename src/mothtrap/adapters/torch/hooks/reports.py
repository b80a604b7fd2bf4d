"""Everything that can be reported about a PyTorch job."""

from __future__ import annotations

from typing import Final

from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.facts.data import (
    BatchesLoaded,
    BorderClasses,
    GeneratorsShared,
    IndicesShared,
    InputDistribution,
    LoaderBegan,
    NonfiniteInput,
    OneBatchUsed,
    RowsDrawn,
    RowsRedrawn,
    RowsRescaled,
    RowsShared,
    SplitDrawn,
    TargetOrder,
)
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
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.facts.layers import (
    AttentionAxis,
    AttentionLook,
    DataTaken,
    ForwardScales,
    IdenticalUnits,
    ImageChannels,
    InitialWeights,
    MaskOfOnes,
    OutputSpread,
    PaddingLabeled,
    PaddingWeights,
    PositionAxis,
    RouterLoad,
    RowTaken,
    SequenceAxes,
    UnitInputs,
    UnmaskedPadding,
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
from mothtrap.core.facts.losses import FailedLoss, LossCall, LossSeries, MixedAxes, TokenShares
from mothtrap.core.facts.memory import EvaluationGraphsKept, LossesKept
from mothtrap.core.facts.modules import (
    AliasedCopy,
    FreezeWithoutEffect,
    FrozenParameters,
    HalfPrecision,
    HiddenParameters,
    RepeatedModule,
    ShapeChanged,
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
    ScoresSummed,
    SimilarityLoss,
)
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.facts.policies import PolicyEntropy, PolicyLoss, UnreadEnds
from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.core.facts.replicas import (
    BatchRows,
    BufferDigests,
    DropoutState,
    OrderRepeated,
    ReplicaBatch,
    ReplicaDigests,
    UnwrappedDigests,
    WorkerSettings,
    WrapperBypassed,
)
from mothtrap.core.facts.samples import DataSeen, SamplesNamed, SamplesTaken
from mothtrap.core.facts.targets import (
    CtcLabels,
    MirroredTargets,
    NoisePrediction,
    ShiftedTargets,
    SoftTargets,
    TrainedTarget,
)
from mothtrap.core.facts.workers import (
    OptimizersNotRestored,
    RestoredNothing,
    Resumed,
    UnmatchedState,
    WeightsNotRestored,
    WeightsReturned,
    WeightsSaved,
    WorkerPace,
)
from mothtrap.core.measured import MEASURED
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

IN_EACH_STEP: Final = (
    *(
        UpdateDropped,
        LossSeries,
        FailedLoss,
        LossesKept,
        NonfiniteModule,
        FiniteOutputs,
        NonfiniteInput,
    ),
    FirstBadOperation,
    *(
        GradientsCleared,
        MicroBatchesCleared,
        ClippedLate,
        UpdateDirection,
        StepGuarded,
        ScriptFailed,
    ),
    *(SamplesTaken, SamplesNamed, DataSeen, LoaderBegan),
    *(Evaluation, EvaluationPhase, NormBatches, TrainingMode, BootstrappedTargets),
    *(CopyLag, LabelledOutputs),
    *(EvaluatedCopy, EvaluationGraphsKept, EvaluationNorms, LossRowsShared, NormAverages),
    ScheduleEnded,
    PhasesTimed,
    *(WorkerPace, WeightsSaved, CheckpointSaved, RestoredNothing, Resumed, UnmatchedState),
    WeightsReturned,
    *(MetricWatched, OptimizersNotRestored, WeightsNotRestored),
    ShapeChanged,
)
"""Facts that are searched for in light steps, too."""

IN_FULL_STEPS: Final = (
    *(EqualStates, EqualViews, TeacherMode),
    *(
        AgreeingLosses,
        CodeNoise,
        DetachedTerm,
        GradientPenalty,
        LossCall,
        MirroredTargets,
        MixedAxes,
        NoisePrediction,
        OwnRowCompetes,
        ShareAdded,
        CtcLabels,
        DistancesAsScores,
        OverlapBroadcast,
        OverlapOfScores,
        ScoresSummed,
        SoftTargets,
        PaddingWeights,
        BorderClasses,
        RowTaken,
        ShiftedTargets,
        ZeroSlope,
        PolicyEntropy,
        PolicyLoss,
        OneSidedPairs,
        OverlapAdded,
        MarginLoss,
        SimilarityLoss,
        TokenShares,
        TrainedTarget,
        UnreadEnds,
        HalfPrecision,
        OptimizerFacts,
        RoundedUpdates,
    ),
    *(UnownedParameter, IdleOptimizer, UnreachedModule, HiddenParameters, FrozenParameters),
    *(AliasedCopy, FreezeWithoutEffect, ImageChannels, PositionAxis, RepeatedModule),
    *(AttentionAxis, AttentionLook, DataTaken, ForwardScales, IdenticalUnits, InitialWeights),
    *(OutputSpread, RouterLoad, UnitInputs, MaskOfOnes, SequenceAxes, UnmaskedPadding),
    PaddingLabeled,
    *(
        BatchesLoaded,
        GeneratorsShared,
        IndicesShared,
        InputDistribution,
        OneBatchUsed,
        RowsDrawn,
        RowsRedrawn,
        RowsRescaled,
        RowsShared,
        SplitDrawn,
        TargetOrder,
    ),
    *(ReplicaBatch, ReplicaDigests, WrapperBypassed, BatchRows, UnwrappedDigests),
    *(BufferDigests, WorkerSettings, DropoutState, OrderRepeated),
)

SHARED: Final = "several threads train the same parameters"
"""Reason why gradients and updates are not reported."""

PARTS_OF_ONE_THREAD: Final = frozenset(
    {
        *("updates", "optimizer facts", "rounding", "reach of gradients", "half precision"),
        *("wiring", "inventory", "initial weights"),
    }
)
"""Observers of gradients and of their effect on weights. They assume that no other thread changes
the weights."""

REPORTS_OF_ONE_THREAD: Final = Reports(
    kinds=frozenset({"gradient", "update", "optimizer_state"}),
    scalars=frozenset({"gradient_norm", "gradient_state", "stale_gradient", "clip_limit"}),
    facts=frozenset(
        {
            *(GradientsCleared, MicroBatchesCleared, ClippedLate, UpdateDirection),
            *(OptimizerFacts, RoundedUpdates),
            *(UnownedParameter, IdleOptimizer, UnreachedModule, HiddenParameters),
            *(FrozenParameters, FreezeWithoutEffect, AliasedCopy, HalfPrecision, InitialWeights),
            RepeatedModule,
        }
    ),
)
"""Reports that are unavailable if several threads train the same parameters."""

REPORTS: Final = Reports(
    kinds=frozenset(
        {
            *("weight", "bias", "buffer", "gradient", "update", "optimizer_state"),
            *("activation", "activation_gradient", "input", "output", "label", "loss"),
        }
    ),
    scalars=MEASURED,
    facts=frozenset((*IN_EACH_STEP, *IN_FULL_STEPS)),
    modes=frozenset(Mode),
)
