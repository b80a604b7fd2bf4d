"""The adapter of torch passes the suite that every adapter passes."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from mothtrap.adapters.torch import ADAPTER
from mothtrap.testing import AdapterTests


class TestTorch(AdapterTests):
    adapter = ADAPTER
    steps = 12
    replaced = (
        nn.Module,
        torch.optim.Optimizer,
        torch.autograd,
        nn.functional,
        nn.utils,
        DataLoader,
    )

    elsewhere = {
        "ScriptFailed": "tests/adapters/torch/explaining/test_failures.py",
        "UpdateDropped": "tests/adapters/torch/hooks/test_ending.py",
        "FailedLoss": "tests/adapters/torch/losses/test_failed_loss.py",
        "StepGuarded": "tests/adapters/torch/guard/test_guarded_steps.py",
        "CheckpointSaved": "tests/adapters/torch/optimization/test_checkpoints.py",
        "RestoredNothing": "tests/adapters/torch/optimization/test_restores.py",
        "WeightsSaved": "tests/adapters/torch/optimization/test_saved_weights.py",
        "ScheduleEnded": "tests/adapters/torch/optimization/test_schedules.py",
        "MaskOfOnes": "tests/adapters/torch/layers/test_attention_masks.py",
        "SequenceAxes": "tests/adapters/torch/layers/test_sequence_axes.py",
        "SimilarityLoss": "tests/adapters/torch/losses/test_similarities.py",
        "WeightsNotRestored": "tests/adapters/torch/optimization/test_saved_weights.py",
        "OptimizersNotRestored": "tests/adapters/torch/optimization/test_saved_weights.py",
        "PolicyEntropy": "tests/adapters/torch/losses/test_policies.py",
        "PolicyLoss": "tests/adapters/torch/losses/test_policies.py",
        "AttentionAxis": "tests/adapters/torch/layers/test_attention_axes.py",
        "PaddingWeights": "tests/adapters/torch/layers/test_padding_weights.py",
        "ScoresSummed": "tests/adapters/torch/losses/test_pair_scores.py",
        "SoftTargets": "tests/adapters/torch/losses/test_soft_targets.py",
        "ShiftedTargets": "tests/adapters/torch/losses/test_shifted_targets.py",
        "ZeroSlope": "tests/adapters/torch/losses/test_zero_slopes.py",
        "BorderClasses": "tests/adapters/torch/losses/test_border_classes.py",
        "RepeatedModule": "tests/adapters/torch/optimization/test_repeated_modules.py",
        "WeightsReturned": "tests/adapters/torch/optimization/test_restores.py",
        "RowTaken": "tests/adapters/torch/layers/test_taken_rows.py",
        "CtcLabels": "tests/adapters/torch/losses/test_ctc_labels.py",
        "DistancesAsScores": "tests/adapters/torch/losses/test_distance_scores.py",
        "OverlapOfScores": "tests/adapters/torch/losses/test_overlap_scores.py",
        "OverlapBroadcast": "tests/adapters/torch/losses/test_overlaps.py",
        "OverlapAdded": "tests/adapters/torch/losses/test_overlaps.py",
        "EvaluatedCopy": "tests/adapters/torch/forward/test_evaluated_copies.py",
        "LossRowsShared": "tests/adapters/torch/losses/test_loss_rows.py",
        "MarginLoss": "tests/adapters/torch/losses/test_margins.py",
        "MicroBatchesCleared": "tests/tracing/steps/test_gradient_order.py",
        "CopyLag": "tests/adapters/torch/forward/test_evaluated_copies.py",
        "MirroredTargets": "tests/adapters/torch/losses/test_mirrored_targets.py",
        "OwnRowCompetes": "tests/adapters/torch/losses/test_own_row_competes.py",
        "GradientPenalty": "tests/adapters/torch/losses/test_gradient_penalties.py",
        "ShareAdded": "tests/adapters/torch/losses/test_shares.py",
        "MixedAxes": "tests/adapters/torch/losses/test_mixed_axes.py",
        "DetachedTerm": "tests/adapters/torch/losses/test_detached_terms.py",
        "EqualViews": "tests/adapters/torch/forward/test_equal_views.py",
        "TeacherMode": "tests/adapters/torch/forward/test_teacher_modes.py",
        "EqualStates": "tests/adapters/torch/forward/test_equal_states.py",
        "OneSidedPairs": "tests/adapters/torch/losses/test_pair_scores.py",
        "AliasedCopy": "tests/adapters/torch/job/test_aliases.py",
        "AgreeingLosses": "tests/adapters/torch/losses/test_opponents.py",
        "NoisePrediction": "tests/adapters/torch/losses/test_denoisers.py",
        "CodeNoise": "tests/adapters/torch/losses/test_code_noises.py",
        "FreezeWithoutEffect": "tests/adapters/torch/optimization/test_inventory.py",
        "ImageChannels": "tests/adapters/torch/layers/test_image_channels.py",
        "MetricWatched": "tests/adapters/torch/optimization/test_plateaus.py",
        "PositionAxis": "tests/adapters/torch/layers/test_position_axes.py",
        "UnmatchedState": "tests/adapters/torch/optimization/test_restores.py",
        "UnreadEnds": "tests/adapters/torch/losses/test_episode_ends.py",
        "TrainedTarget": "tests/adapters/torch/losses/test_trained_targets.py",
        "SamplesNamed": "tests/adapters/torch/data/test_provenance.py",
        "ReplicaDigests": "tests/adapters/torch/job/test_distributed.py",
        "ReplicaBatch": "tests/adapters/torch/job/test_distributed.py",
        "PaddingLabeled": "tests/adapters/torch/layers/test_padding_masks.py",
        "UnmaskedPadding": "tests/adapters/torch/layers/test_padding_masks.py",
        "OrderRepeated": "tests/adapters/torch/data/test_sampler_orders.py",
        "BatchRows": "tests/adapters/torch/job/test_worker_states.py",
        "UnwrappedDigests": "tests/adapters/torch/job/test_worker_states.py",
        "BufferDigests": "tests/adapters/torch/job/test_worker_states.py",
        "WorkerSettings": "tests/adapters/torch/job/test_worker_states.py",
        "DropoutState": "tests/adapters/torch/job/test_worker_states.py",
        "WrapperBypassed": "tests/adapters/torch/job/test_distributed.py",
        "OneBatchUsed": "tests/adapters/torch/data/test_unused_batches.py",
        "GeneratorsShared": "tests/adapters/torch/data/test_worker_generators.py",
        "RowsRedrawn": "tests/adapters/torch/data/test_redrawn_rows.py",
        "RowsRescaled": "tests/adapters/torch/data/test_rescaled_rows.py",
        "WorkerPace": "tests/adapters/torch/test_distributed_jobs.py",
        "digest_sum": "tests/statistics/torch/test_fingerprint.py (accelerators only)",
    }

    def train(self) -> bytes:
        torch.manual_seed(0)
        x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(self.steps):
            rows = torch.randperm(48)[:16]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            if step % 4 == 3:
                model.eval()
                with torch.no_grad():
                    nn.functional.cross_entropy(model(x), y)
                model.train()
        weights = [p.detach().numpy().reshape(-1) for p in model.parameters()]
        state = torch.get_rng_state().numpy().tobytes()
        return np.concatenate(weights).tobytes() + state

    def reported(self) -> Sequence[Callable[[], object]]:
        programs = [functools.partial(run_faulty, name) for name in FAULTY]
        odd = train_in_odd_order, train_and_evaluate_the_same, keep_losses
        odd += train_by_hand, train_on_own_output, keep_evaluations
        odd += (evaluate_by_the_last_batch,)
        return [self.train, *programs, *odd]


FAULTY = (
    *("nonfinite_input", "epsilon_underflow", "train_mode_in_evaluation", "nonfinite_loss"),
    *("optimizer_without_model", "clipping_every_step", "disconnected_parameter"),
    *("frozen_parameters", "attention_logit_growth", "unused_module", "train_eval_overlap"),
    *("loss_scale_collapse", "symmetric_initialization", "router_collapse"),
)
"""Faulty programs that together produce every fact, tensor and scalar of a single process."""
STEPS = 24


def run_faulty(name: str) -> None:
    """Run a faulty program for a few steps, for its facts and not for its fault."""
    folder = Path(__file__).parents[2] / "faulty"
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    short = re.sub(r"\brange\(\d{3}\)", f"range({STEPS})", text)
    code = compile(short, str(folder / f"{name}.py"), "exec")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", [name])
        patch.syspath_prepend(folder)
        exec(code, {"__name__": "__main__"})


def train_in_odd_order() -> None:
    """Clip after the step, clear gradients before it, and change the size of the batch."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(30):
        x = torch.randn(4 + step % 3, 4)
        model(x).square().mean().backward()
        if step % 2:
            optimizer.zero_grad()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.zero_grad()


def train_and_evaluate_the_same() -> None:
    """Draw training and evaluation from one data set, with rows in both."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
    train = DataLoader(Subset(data, range(30)), batch_size=10, shuffle=True)
    held_out = DataLoader(Subset(data, range(25, 40)), batch_size=5)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(4):
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in held_out:
                nn.functional.mse_loss(model(x), y)


def train_by_hand() -> None:
    """Update the weights without an optimizer."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    for _ in range(12):
        model(torch.randn(8, 4)).square().mean().backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-1e-2)
        model.zero_grad()


def train_on_own_output() -> None:
    """Make targets of the model's output."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(30):
        x = torch.randn(8, 4)
        with torch.no_grad():
            target = 1 + 0.9 * model(torch.randn(8, 4))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()


def keep_losses() -> None:
    """Hold every loss together with its graph."""
    torch.manual_seed(0)
    model, kept = nn.Linear(4, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(200):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss * 1.0)


def keep_evaluations() -> None:
    """Evaluate with autograd on, and hold every loss."""
    torch.manual_seed(0)
    model, kept = nn.Linear(4, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(6):
        loss = nn.functional.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        kept.append(nn.functional.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1)))
        model.train()


def evaluate_by_the_last_batch() -> None:
    """Evaluate with a batch norm that keeps the statistics of the last batch."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=0.9), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 4)).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(torch.randn(8, 4))
