"""The programs of `tests/programs`, how each is started, and how many steps it makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "programs"
TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2", "--standalone")


@dataclass(frozen=True)
class Program:
    """A program: `launcher` is the command in front of it where it is not plain Python.

    `steps` are the optimizer steps that one worker makes; `starts_others`: processes that
    begin with an interpreter of their own.
    """

    name: str
    steps: int
    workers: int = 1
    launcher: tuple[str, ...] = ()
    starts_others: bool = False

    def plain(self, seed: int, python: Sequence[str] = (sys.executable,)) -> list[str]:
        """The command that runs the program, by `python` where it needs no other."""
        if self.launcher or self.starts_others:
            python = self.launcher or (sys.executable,)
        return [*python, str(FOLDER / f"{self.name}.py"), str(seed)]

    def target(self, seed: int) -> list[str]:
        """The words that follow `mothtrap run` and its options."""
        return ["--", *self.plain(seed)]


PROGRAMS = {
    program.name: program
    for program in (
        Program("compile_inductor", steps=64, starts_others=True),
        Program("mp_spawn", steps=48, starts_others=True, workers=2),
        Program("torchrun_ddp", steps=32, workers=2, launcher=TORCHRUN),
        Program("accumulation", steps=64),
        Program("autocast_bf16", steps=96),
        Program("autograd_grad_assigned", steps=96),
        Program("checkpointing", steps=96),
        Program("compile_aot_eager", steps=64),
        Program("data_parallel", steps=64),
        Program("encoder_eval_fast_path", steps=60),
        Program("executed_text", steps=64),
        Program("forked_loader", steps=24, starts_others=True),
        Program("fp16_scaler", steps=96),
        Program("functional_loss", steps=96),
        Program("gan", steps=240),
        Program("handwritten_loss", steps=128),
        Program("jit_script", steps=64),
        Program("language_model", steps=150),
        Program("lbfgs", steps=15),
        Program("loader_kinds", steps=38, starts_others=True),
        Program("main_guard", steps=64),
        Program("optimizer_in_backward", steps=96),
        Program("plain_loop", steps=128),
        Program("reentrant_checkpointing", steps=64),
        Program("rnn", steps=80),
        Program("sam_closure", steps=64),
        Program("spawned_loader", steps=24, starts_others=True),
        Program("train_eval_train", steps=80),
        Program("trainer_class", steps=96),
        Program("two_optimizers", steps=96),
        Program("warnings_as_errors", steps=64, launcher=(sys.executable, "-W", "error")),
    )
}
