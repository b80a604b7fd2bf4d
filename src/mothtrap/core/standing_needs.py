"""Facts that are needed whichever rules are selected.

The verdict, `show`, `diff`, `samples`, `doctor`, `replay`, resumption and the ledger read
them; `select` does not switch them off.
"""

from __future__ import annotations

from mothtrap.core.facts.captures import (
    Blind,
    CaptureChanged,
    Dropped,
    FullSteps,
    SettingIgnored,
    Thinned,
    ToolError,
    Unwatched,
)
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan, SplitDrawn
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.guards import StepGuarded, TrainingStopped
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.facts.losses import FailedLoss, LossSeries
from mothtrap.core.facts.modules import ShapeChanged
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.facts.record import CheckpointSaved, ItemLogged, ParametersLogged
from mothtrap.core.facts.replicas import BatchRows, ReplicaDigests
from mothtrap.core.facts.samples import DataSeen, SamplesNamed, SamplesTaken
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.trainers import TrainerSettings, TrainingPhase
from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    FeatureImportance,
    ScoresSeen,
    TableSeen,
)
from mothtrap.core.facts.workers import (
    Resumed,
    WeightsSaved,
    WorkerEnded,
    WorkerLost,
    WorkerPace,
    WorkerStarted,
)
from mothtrap.core.needs import Need

NEEDS_OF_THE_JOB = (
    Need(facts=(WorkerStarted, WorkerEnded, WorkerLost, Resumed, SnapshotKept)),
    Need(facts=(TrainingStopped, FullSteps, ParametersLogged, ItemLogged, CheckResult)),
    Need(facts=(Blind, ToolError, Dropped, Thinned, Unwatched, CaptureChanged, ShapeChanged)),
    Need(facts=(AdapterReports, Cannot, Looked, SettingIgnored)),
    Need(facts=(WorkerStalled,)),
)
"""Facts that are recorded by every adapter."""

STANDING_NEEDS = (
    *NEEDS_OF_THE_JOB,
    Need(facts=(EpochMetrics, PhasesTimed, WorkerPace)),
    Need(
        facts=(
            LoaderBegan,
            BatchesLoaded,
            DataSeen,
            SplitDrawn,
            OptimizerFacts,
            ScriptFailed,
            FailedLoss,
        )
    ),
    Need(facts=(LossSeries, SamplesTaken, SamplesNamed, StepGuarded, WeightsSaved), each_step=True),
    Need(facts=(CheckpointSaved,), each_step=True),
    Need(facts=(TrainerSettings, TrainingPhase)),
    Need(facts=(BatchRows, ReplicaDigests)),
    Need(facts=(BoostingBegan, BoostingEnded, FeatureImportance, ScoresSeen, TableSeen)),
    Need(facts=(Evaluation, EvaluationMetrics)),
)
