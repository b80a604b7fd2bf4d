"""Fault of each program that goes bad late, and its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BadStep:
    """The bad step of a program in `programs/`.

    `operation` is None if an input of the step was already bad; `holder` is then the object that
    contained it. `rows` are the rows each of which alone makes the step bad; None: no single row
    does. `sample` is the index of the first of them in the data set, if it has one. `exception` is
    the type of the exception that ends the program there. The line to name is the one marked `# <-
    here`.
    """

    name: str
    step: int
    operation: str | None
    module: str | None = None
    rows: tuple[int, ...] | None = None
    sample: int | None = None
    exception: str | None = None
    holder: str = ""
    worker: int = 0


BAD_STEPS = (
    BadStep("log_of_zero", 157, "torch.log", rows=(11,), sample=2523),
    BadStep("zero_standard_deviation", 140, "torch.div", "scale", rows=(17,)),
    BadStep("zero_deviation_over_batch", 133, "torch.div"),
    BadStep(
        "half_precision_overflow",
        121,
        "conversion to torch.float16",
        "encode",
        rows=(8,),
        sample=877,
    ),
    BadStep("exp_overflow_in_attention", 128, "torch.exp", "blocks.1.attention", rows=(3,)),
    BadStep("negative_label", 150, "torch.sqrt", rows=(9,)),
    BadStep(
        "label_out_of_range",
        117,
        "torch.nn.functional.cross_entropy",
        "CrossEntropyLoss",
        rows=(6,),
        exception="IndexError",
    ),
    BadStep("nan_in_a_file", 112, None, rows=(4,), sample=1124, holder="batch"),
    BadStep("exploding_rnn", 105, "torch.nn.functional.linear", "recur", rows=(2,)),
    BadStep("shape_of_last_batch", 125, "torch.reshape", "fold", exception="RuntimeError"),
    BadStep("sqrt_of_zero_in_backward", 144, "backward of torch.sqrt", rows=(13,)),
    BadStep("empty_sequence", 131, "torch.div", "pool", rows=(7,), sample=1186),
    BadStep(
        "token_out_of_range",
        119,
        "torch.nn.functional.embedding",
        "embed",
        rows=(10,),
        exception="IndexError",
    ),
    BadStep("closure_of_micro_batches", 115, "torch.log", rows=(5,)),
    BadStep("acos_out_of_range", 123, "torch.acos", rows=(1,)),
    BadStep("softmax_by_hand", 136, "torch.log", rows=(12,)),
    BadStep("learning_rate_spike", 111, None, holder="0.weight"),
    BadStep("every_key_masked", 137, "torch.softmax", "attend", rows=(4,)),
    BadStep("gradient_of_one_rank", 109, "torch.div", worker=1),
)
