"""Observers that read losses when their backward pass begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mothtrap.adapters.torch.layers.attention import AttentionObserver
from mothtrap.adapters.torch.layers.attention_axes import AttentionAxisObserver
from mothtrap.adapters.torch.layers.padding_weights import PaddingWeightObserver
from mothtrap.adapters.torch.layers.taken_rows import TakenRowObserver
from mothtrap.adapters.torch.losses.border_classes import BorderClassObserver
from mothtrap.adapters.torch.losses.code_noises import CodeNoiseObserver
from mothtrap.adapters.torch.losses.ctc_labels import CtcLabelObserver
from mothtrap.adapters.torch.losses.denoisers import DenoiserObserver
from mothtrap.adapters.torch.losses.detached_terms import DetachedTermObserver
from mothtrap.adapters.torch.losses.distance_scores import DistanceScoreObserver
from mothtrap.adapters.torch.losses.episode_ends import EpisodeEndObserver
from mothtrap.adapters.torch.losses.gradient_penalties import GradientPenaltyObserver
from mothtrap.adapters.torch.losses.hinges import HingeObserver
from mothtrap.adapters.torch.losses.mirrored_targets import MirroredTargetObserver
from mothtrap.adapters.torch.losses.mixed_axes import MixedAxesObserver
from mothtrap.adapters.torch.losses.opponents import OpponentObserver
from mothtrap.adapters.torch.losses.overlap_scores import OverlapScoreObserver
from mothtrap.adapters.torch.losses.overlaps import OverlapObserver
from mothtrap.adapters.torch.losses.own_row_competes import OwnRowObserver
from mothtrap.adapters.torch.losses.pair_scores import PairScoreObserver
from mothtrap.adapters.torch.losses.policies import EntropyObserver, PolicyObserver
from mothtrap.adapters.torch.losses.remade_parameters import RemadeParameterObserver
from mothtrap.adapters.torch.losses.shares import ShareObserver
from mothtrap.adapters.torch.losses.similarities import SimilarityObserver
from mothtrap.adapters.torch.losses.soft_targets import SoftTargetObserver
from mothtrap.adapters.torch.losses.trained_targets import TrainedTargetObserver
from mothtrap.adapters.torch.losses.zero_slopes import ZeroSlopeObserver
from mothtrap.core.facts.data import BorderClasses, TargetOrder
from mothtrap.core.facts.evaluations import LossRowsShared
from mothtrap.core.facts.layers import AttentionAxis, AttentionLook, PaddingWeights, RowTaken
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
from mothtrap.core.facts.losses import MixedAxes
from mothtrap.core.facts.modules import ZeroSlope
from mothtrap.core.facts.optimizers import UnownedParameter
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

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import Observers
    from mothtrap.adapters.torch.losses.policies import SampledActions
    from mothtrap.adapters.torch.losses.target_order import TargetOrderObserver


def add_loss_observers(
    job: Job,
    observers: Observers,
    forwards: ForwardObserver,
    targets: TargetOrderObserver,
    sampled: SampledActions,
) -> None:
    """Add the observers of losses whose facts are needed.

    Args:
        job: the job that they observe.
        observers: list to which they are added.
        forwards: observer of forward passes, two parts of which also observe losses.
        targets: observer of the order of targets, which other observers also need.
        sampled: actions drawn by policies.
    """
    margins, rows = forwards.margins, forwards.evaluations.rows
    owned = forwards.reach.is_owned
    observers.add("data", lambda: targets, TargetOrder)
    observers.add("loss terms", lambda: DetachedTermObserver(job), DetachedTerm)
    observers.add("loss terms", lambda: TrainedTargetObserver(job), TrainedTarget)
    observers.add("loss terms", lambda: SimilarityObserver(job), SimilarityLoss)
    observers.add("policies", lambda: PolicyObserver(job, sampled), PolicyLoss)
    observers.add("policies", lambda: EntropyObserver(job, sampled), PolicyEntropy)
    observers.add("policies", lambda: EpisodeEndObserver(job), UnreadEnds)
    observers.add("loss terms", lambda: OverlapObserver(job), OverlapAdded, OverlapBroadcast)
    observers.add("loss terms", lambda: OverlapScoreObserver(job), OverlapOfScores)
    observers.add("loss terms", lambda: DistanceScoreObserver(job), DistancesAsScores)
    observers.add("loss terms", lambda: CtcLabelObserver(job), CtcLabels)
    observers.add("loss terms", lambda: ZeroSlopeObserver(job), ZeroSlope)
    observers.add("loss terms", lambda: RemadeParameterObserver(job, owned), UnownedParameter)
    observers.add("loss terms", lambda: GradientPenaltyObserver(job), GradientPenalty)
    observers.add("loss terms", lambda: ShareObserver(job), ShareAdded)
    observers.add("loss terms", lambda: SoftTargetObserver(job), SoftTargets)
    observers.add("loss terms", lambda: CodeNoiseObserver(job), CodeNoise)
    observers.add("loss terms", lambda: DenoiserObserver(job, forwards), NoisePrediction)
    observers.add("loss terms", lambda: OpponentObserver(job, forwards), AgreeingLosses)
    observers.add("loss terms", lambda: OwnRowObserver(job), OwnRowCompetes)
    observers.add("loss terms", lambda: PairScoreObserver(job), OneSidedPairs)
    observers.add("loss terms", lambda: HingeObserver(job, margins), MarginLoss, each_step=True)
    observers.add("evaluations", lambda: rows, LossRowsShared, each_step=True)
    observers.add("views", lambda: MixedAxesObserver(job), MixedAxes)
    observers.add("views", lambda: MirroredTargetObserver(job), MirroredTargets, ShiftedTargets)
    observers.add("views", lambda: BorderClassObserver(job), BorderClasses)
    observers.add("views", lambda: TakenRowObserver(job), RowTaken)
    observers.add("attention", lambda: AttentionObserver(job), AttentionLook)
    observers.add("attention", lambda: AttentionAxisObserver(job), AttentionAxis)
    observers.add("attention", lambda: PaddingWeightObserver(job), PaddingWeights)
