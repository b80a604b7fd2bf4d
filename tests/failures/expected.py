"""Expected report of each program that ends with a mistake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A failure: `says` are parts of its sentence, `fix` is part of its first help, and `batch` is
    part of the origin of the data.
    """

    kind: str
    step: int
    says: tuple[str, ...]
    line: int
    module: str | None = None
    fix: str = ""
    batch: str = ""


FAILURES = {
    "square_root_before_the_loss": Expected(
        kind="label",
        step=0,
        line=15,
        says=(
            "(square_root_before_the_loss.py:15) got predictions that contain NaN",
            "torch.sqrt at square_root_before_the_loss.py:13 produced them from finite values "
            "(scores",
        ),
        fix="Keep the input of `torch.sqrt` above 0",
    ),
    "square_root_inside_the_model": Expected(
        kind="label",
        step=0,
        line=27,
        says=(
            "(square_root_inside_the_model.py:27) got predictions that contain NaN",
            "torch.sqrt at square_root_inside_the_model.py:",
            "produced them from finite values",
        ),
        fix="Keep the input of `torch.sqrt` above 0",
    ),
    "smaller_last_batch": Expected(
        kind="shape",
        step=2,
        module="Net",
        line=17,
        says=(
            "`x.view(32, 36)` in Net",
            "(32, 36) has 1152 elements, but the tensor has 612; 32 is the size of a full batch",
            "x is float32 (17, 4, 3, 3) and comes from pool (nn.MaxPool2d, ",
        ),
        fix="do not hard-code the batch size",
        batch="gave 17 rows, fewer than its batch size 32; samples 64 to 80 of its data",
    ),
    "targets_of_a_whole_batch": Expected(
        kind="shape",
        step=2,
        line=10,
        says=("`model(x) - torch.ones(32, 1)` (targets_of_a_whole_batch.py:10): the size of ten",),
        fix="torch.ones(32, 1) has the size of a full batch: write x.shape[0] instead of 32",
        batch="gave 6 rows, fewer than its batch size 32",
    ),
    "rows_of_a_whole_batch": Expected(
        kind="shape",
        step=2,
        line=11,
        says=("ones is float32 (32, 1)",),
        fix="a tensor here may have the size of a full batch (32 rows)",
        batch="gave 6 rows, fewer than its batch size 32",
    ),
    "wide_pooling": Expected(
        kind="shape",
        step=0,
        module="fc1",
        line=12,
        says=(
            "fc1 (nn.Linear(64, 10), ",
            "wide_pooling.py:10) got input of shape (5, 36): its last axis must be 64, but is 36",
            "it comes from flatten (nn.Flatten, ",
        ),
        fix="change the layer to nn.Linear(36, 10), or give it an input of size 64",
    ),
    "channels_last": Expected(
        kind="shape",
        step=3,
        module="0",
        line=10,
        says=("got images of shape (2, 8, 8, 3): its axis 1 (channels) must be 3, but is 8",),
        fix="x.permute(0, 3, 1, 2)",
    ),
    "classes_on_the_last_axis": Expected(
        kind="shape",
        step=0,
        line=10,
        says=(
            "predictions of shape (4, 7, 11) and targets of shape (4, 7)",
            "the classes must be in axis 1, but here they are in the last axis (11)",
            "the prediction comes from 1 (nn.Linear(8, 11), ",
        ),
        fix="pred.transpose(1, -1)",
    ),
    "skip_connection": Expected(
        kind="shape",
        step=2,
        module="Skip",
        line=16,
        says=(
            "wide is float32 (2, 2, 8, 8) and comes from same (nn.Conv2d(1, 2, 3), ",
            "narrow is float32 (2, 2, 7, 7) and comes from up (nn.ConvTranspose2d(2, 2, 3), ",
        ),
    ),
    "batch_of_one": Expected(
        kind="shape",
        step=2,
        module="1",
        line=11,
        says=("1 (nn.BatchNorm1d(8), ", "more than one value per channel, but this is one row"),
        fix="drop_last=True",
        batch="gave 1 row, fewer than its batch size 4; sample 8 of its data",
    ),
    "uneven_samples": Expected(
        kind="shape",
        step=1,
        line=11,
        says=("do not fit into one batch", "got [4] at entry 0 and [5] at entry 2", "4 to 6"),
        fix="pad or crop every sample",
    ),
    "arrays_of_numpy": Expected(
        kind="dtype",
        step=2,
        module="0",
        line=12,
        says=("got rows of float64 (16, 6): its weights are float32",),
        fix="x.float()",
    ),
    "output_with_state": Expected(
        kind="type",
        step=0,
        module="out",
        line=10,
        says=("a tuple of 2 (float32 (5, 2, 4), ", "the first comes from rnn (nn.LSTM(3, 4), "),
        fix="out, state = self.rnn(x)",
    ),
    "head_left_on_meta": Expected(
        kind="device",
        step=0,
        module="head",
        line=13,
        says=("its weights have no memory", "it comes from body (nn.Linear(6, 4), "),
        fix="to_empty",
    ),
    "token_beyond_the_vocabulary": Expected(
        kind="index",
        step=3,
        module="embed",
        line=15,
        says=("to 50 ", "(wrong in row 1: sample 13): it has only rows 0 to 49"),
        fix="nn.Embedding(51, ...)",
        batch="samples 12 to 15",
    ),
    "label_without_a_class": Expected(
        kind="label",
        step=2,
        line=13,
        says=("labels from 0 to 3 (wrong in row 5: sample 17)", "for the classes 0 to 2 only"),
        fix="give the model 4 outputs",
        batch="samples 12 to 17",
    ),
    "state_with_its_graph": Expected(
        kind="graph",
        step=0,
        line=13,
        says=("that an earlier backward pass already freed", "among the variables there, state"),
        fix="state = state.detach()",
    ),
    "overwritten_activation": Expected(
        kind="graph",
        step=0,
        line=22,
        says=(
            "a tensor of shape (3, 4), kept for the gradient of sigmoid, computed after inner (",
            "overwritten_activation.py:15",
        ),
        fix="x = x + y",
    ),
    "stepped_too_early": Expected(
        kind="graph",
        step=1,
        line=14,
        says=("the shape of 1.weight: an optimizer",),
        fix="before any optimizer.step()",
    ),
    "detached_loss": Expected(
        kind="graph",
        step=0,
        line=10,
        says=("no graph to follow", "prediction has a graph: it was cut between there"),
        fix=".detach()",
    ),
    "all_pairs": Expected(
        kind="memory",
        step=1,
        module="Pairs",
        line=13,
        says=("`torch.cdist(x, x)` in Pairs", "asked for 4 PiB", "x is float32 (33554432, 1)"),
        fix="check the sizes",
    ),
    "corrupt_sample": Expected(
        kind="data",
        step=2,
        line=21,
        says=("worker 0 of loader 1", "corrupt_sample.py:14: KeyError: 'x'", "samples 8 to 11"),
        fix="num_workers=0",
    ),
}
"""By program; the line is the line of the user's code that was running."""

UNEXPLAINED = {"own_key_error": 1, "own_refusal": 1, "caught_and_tried_again": 3}
"""Programs that end normally, or that the framework does not explain, with their exit codes."""
