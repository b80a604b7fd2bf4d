"""The programs of `tests/programs`, how each is started, and how many steps it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.running import PYTHON

FOLDER = Path(__file__).parent.parent / "programs"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


@dataclass(frozen=True)
class Program:
    """A program: `options` are the words between Python and the script.

    `steps` are the optimizer steps that one worker makes.
    """

    name: str
    steps: int
    workers: int = 1
    options: tuple[str, ...] = ()

    def plain(self, seed: int, python: Sequence[str] = PYTHON) -> list[str]:
        """The command that runs the program."""
        return [*python, *self.options, str(FOLDER / f"{self.name}.py"), str(seed)]

    def target(self, seed: int, python: Sequence[str] = PYTHON) -> list[str]:
        """The words that follow `mothtrap run` and its options."""
        return ["--", *self.plain(seed, python)]


PROGRAMS = {
    program.name: program
    for program in (
        Program("compile_inductor", steps=64),
        Program("mp_spawn", steps=48, workers=2),
        Program("torchrun_ddp", steps=32, workers=2, options=TORCHRUN),
        Program("accumulation", steps=32),
        Program("autocast_bf16", steps=48),
        Program("autograd_grad_assigned", steps=48),
        Program("by_hand", steps=37),  # three updates are seen before they are recognized
        Program("checkpointing", steps=48),
        Program("compile_aot_eager", steps=48),
        Program("data_parallel", steps=48),
        Program("encoder_eval_fast_path", steps=60),
        Program("executed_text", steps=64),
        Program("forked_loader", steps=24),
        Program("fp16_scaler", steps=64),
        Program("functional_loss", steps=48),
        Program("gan", steps=120),
        Program("handwritten_loss", steps=64),
        Program("jit_script", steps=48),
        Program("language_model", steps=100),
        Program("lbfgs", steps=15),
        Program("loader_kinds", steps=38),
        Program("main_guard", steps=64),
        Program("optimizer_in_backward", steps=48),
        Program("plain_loop", steps=64),
        Program("reentrant_checkpointing", steps=48),
        Program("rnn", steps=48),
        Program("sam_closure", steps=48),
        Program("spawned_loader", steps=24),
        Program("threads_ensemble", steps=48),  # of the first of three threads
        Program("train_eval_train", steps=80),
        Program("trainer_class", steps=48),
        Program("two_optimizers", steps=96),
        Program("warnings_as_errors", steps=64, options=("-W", "error")),
    )
}
