"""Everything that can be reported about a Keras job."""

from __future__ import annotations

from typing import Final

from mothtrap.core.facts.compiling import UpdateDropped, ValueReadOnce
from mothtrap.core.facts.data import (
    BatchesLoaded,
    InputDistribution,
    LoaderBegan,
    NonfiniteInput,
    OneBatchUsed,
    RowsShared,
    StatesKept,
    TargetOrder,
)
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched, WeightsAveraged
from mothtrap.core.facts.evaluations import (
    BootstrappedTargets,
    EvaluatedCopy,
    Evaluation,
    EvaluationMetrics,
    EvaluationPhase,
    NormAverages,
    NormBatches,
    TrainingMode,
)
from mothtrap.core.facts.functions import FunctionTraced, ModelCompiled, TrainableIgnored
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    IdenticalUnits,
    InitialWeights,
    MaskOfOnes,
    OutputSpread,
    UnitInputs,
)
from mothtrap.core.facts.loss_terms import AgreeingLosses, CodeNoise
from mothtrap.core.facts.losses import LossCall, LossSeries, MetricBroadcast, TokenShares
from mothtrap.core.facts.modules import FrozenParameters, UnreachedModule
from mothtrap.core.facts.optimizers import OpposedOptimizers, OptimizerFacts, UnownedParameter
from mothtrap.core.facts.pipelines import ShuffledApart, SplitReshuffled
from mothtrap.core.facts.policies import PolicyLoss, UnreadEnds
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

EVERY_STEP: Final = (
    *(LossSeries, OptimizerFacts, Evaluation, EvaluationMetrics, FunctionTraced, ModelCompiled),
    *(LoaderBegan, NonfiniteInput, RowsShared, SplitReshuffled, InputDistribution),
    *(FrozenParameters, TokenShares, UpdateDropped, EpochMetrics, MetricWatched),
    *(WeightsAveraged, ShuffledApart, MetricBroadcast, ValueReadOnce, TrainableIgnored),
    StatesKept,
)
"""Facts that are searched for in each step, even if the program is not visible."""

SAMPLED_STEPS: Final = (
    *(LossCall, TargetOrder, DataTaken, ForwardScales, OutputSpread, UnitInputs),
    *(InitialWeights, IdenticalUnits, UnreachedModule, TrainingMode, NormBatches),
    *(NormAverages, EvaluationPhase, UnownedParameter, BatchesLoaded, OneBatchUsed),
    MaskOfOnes,
    *(AgreeingLosses, OpposedOptimizers, BootstrappedTargets, EvaluatedCopy, UnreadEnds),
    *(TrainedTarget, CodeNoise, PolicyLoss),
)
"""Facts that are searched for in full steps, inside the program."""

ON_TORCH: Final = Reports(facts=frozenset({EpochMetrics, MetricWatched}))
"""Everything that is reported if PyTorch's adapter observes the steps."""

REPORTS: Final = Reports(
    kinds=frozenset(
        {
            *("weight", "bias", "gradient", "optimizer_state", "activation"),
            *("input", "output", "label", "loss"),
        }
    ),
    scalars=frozenset({"loss", "lr", "loss_scale", "gradient_norm", "clip_limit"}),
    facts=frozenset((*EVERY_STEP, *SAMPLED_STEPS)),
    modes=frozenset({Mode.TRAIN, Mode.EVAL, Mode.PREDICT}),
)
