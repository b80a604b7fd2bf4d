"""Training is bit-identical with and without observation, and healthy runs get no finding.

By default it uses seed 0 with everything captured, and other ways of observing for a few programs.
`HARNESS=full` runs every program in every way, `HARNESS_SEEDS=0,1,2` adds seeds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.harness.programs import PROGRAMS, Program
from tests.harness.running import (
    FULL,
    Cache,
    Outcome,
    environment,
    observed,
    run,
    show,
)

ALL_KINDS = {
    "whole": {
        "tensors": ["*"],
        "modules": ["*"],
        "raw": True,
        "statistics": ["all", "update_ratio"],
        "modes": ["train", "eval"],
    }
}
MODES = {
    "everything": {"MOTHTRAP_CAPTURE": "everything", "MOTHTRAP_OVERHEAD": "0"},
    "all_kinds_whole": {
        "MOTHTRAP_CAPTURE": "everything",
        "MOTHTRAP_OVERHEAD": "0",
        "MOTHTRAP_COLLECTIONS": json.dumps(ALL_KINDS),
    },
    "process_beside": {
        "MOTHTRAP_CAPTURE": "everything",
        "MOTHTRAP_WRITER": "process",
        "MOTHTRAP_DURABILITY": "power",
    },
    "default": {},
    "hooks_only": {"MOTHTRAP_CAPTURE": "off"},
    "guarded": {"MOTHTRAP_ON_NONFINITE": "skip", "MOTHTRAP_MAX_GRADIENT_NORM": "1e9"},
}
SAMPLED = {"encoder_eval_fast_path"}
WHOLE = SAMPLED | {
    *("checkpointing", "fp16_scaler", "jit_script", "lbfgs", "optimizer_in_backward"),
    *("plain_loop", "rnn"),
}
BESIDE = {"mp_spawn"}
LONG = {"gan", "language_model", "train_eval_train"}
"""Programs with more steps than are fully observed: the later ones are light by default."""
COMPILED = {"compile_inductor", "compile_aot_eager"}
"""These take long to compile; by default the tests of taps and compiled steps cover them."""
CHOSEN = {
    "everything": PROGRAMS.keys() - WHOLE - BESIDE - COMPILED,  # the first take all that and more
    "all_kinds_whole": WHOLE,
    "process_beside": BESIDE,
    "default": SAMPLED | LONG,
    "guarded": {"lbfgs"},
}
SEEDS = [int(seed) for seed in os.environ.get("HARNESS_SEEDS", "0").split(",")]
CASES = [
    pytest.param(program, mode, seed, id=f"{program.name}-{mode}-{seed}")
    for program in PROGRAMS.values()
    for mode in MODES
    for seed in SEEDS
    if program.name in CHOSEN.get(mode, SAMPLED) or FULL
]


def differences(plain: Outcome, seen: Outcome) -> list[str]:
    """Name which of digests, output and exit code two outcomes differ in."""
    found = [
        f"digest of {part}: {digest} became {seen.digests.get(part)}"
        for part, digest in plain.digests.items()
        if seen.digests.get(part) != digest
    ]
    if seen.stdout != plain.stdout:
        found.append(f"stdout:\n{plain.stdout}became:\n{seen.stdout}")
    if seen.returncode != plain.returncode:
        found.append(f"exit code {plain.returncode} became {seen.returncode}: {seen.stderr}")
    return found


@pytest.mark.parametrize(("program", "mode", "seed"), CASES)
def test_training_is_not_changed(
    program: Program,
    mode: str,
    seed: int,
    cache: Cache,
    session_folder: Path,
    tmp_path: Path,
) -> None:
    compiled = {
        "TORCHINDUCTOR_CACHE_DIR": str(session_folder / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # more would be processes that import torch
    }
    plain = cache.get(
        f"{program.name}-{seed}",
        lambda: run(program.plain(seed), cwd=tmp_path, env=environment(**compiled)),
    )
    assert plain.returncode == 0, f"the program itself fails:\n{plain.stderr}"
    if plain.stdout.startswith("skipped"):
        pytest.skip(plain.stdout.strip())

    seen = run(
        observed(program.target(seed), runs_dir=tmp_path, name="seen"),
        cwd=tmp_path,
        env=environment(**compiled, **MODES[mode]),
    )
    assert differences(plain, seen) == []

    if mode == "hooks_only":
        return  # nothing is captured, so there is nothing to show
    record = show(tmp_path / "seen", cwd=tmp_path)
    errors = [f["message"] for f in record["findings"] if f["severity"] == "error"]
    assert errors == [], "a healthy program was called faulty"
    assert record.get("tool_errors", []) == [], "a part of mothtrap failed"
    assert record["run"]["state"] == "finished"
    # Digests that are equal because nothing was observed would prove nothing.
    assert len(record["run"]["workers"]) == program.workers
    assert record["run"]["steps"] == program.steps
