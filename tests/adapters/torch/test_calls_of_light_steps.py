"""A light step makes few Python calls, which are its cost besides a copy of its inputs."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from bench.models.resnet import ResNet
from tests.adapters.torch.watched import DEFAULT, watched
from torch import nn

import mothtrap
from mothtrap.capture import depths

PACKAGE = str(Path(mothtrap.__file__).parent)
STEPS = 10
MOST_CALLS, MOST_FUNCTIONS = 258, 186
"""Limits for the calls of mothtrap functions in a light step of a residual network: the counts (255
calls of 184 functions; about ten of the calls mark the phases of the step) and a small margin. The
goal is 120 and 60.
"""


def calls_of(step: Callable[[], None], job: Any) -> Counter[CodeType]:
    """Return the calls of mothtrap functions in ten light steps."""
    found: Counter[CodeType] = Counter()
    own = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found[frame.f_code] += 1

    while own < STEPS:
        light = job.light and job.recorder.plan.next_is_light
        sys.setprofile(count if light else None)
        step()
        sys.setprofile(None)
        own += light
    return found


def test_a_light_step_of_a_residual_network_makes_few_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(depths, "FIRST_S", math.inf)
    torch.manual_seed(0)
    model = ResNet()
    x, y = torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,))
    with watched(capture=DEFAULT, overhead=0.02) as seen:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        for _ in range(depths.FIRST + 2):
            step()
        found = calls_of(step, seen.tracer)
    told = [(count, code.co_qualname) for code, count in found.most_common(20)]
    assert (sum(found.values()) / STEPS, len(found)) <= (MOST_CALLS, MOST_FUNCTIONS), told
    assert len(found) <= MOST_FUNCTIONS, len(found)
