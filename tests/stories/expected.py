"""The headline of each program, and words that the finding must contain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The root cause with which the verdict opens.

    `says` lists parts of its message, `fix` parts of its first advice. The line is the one marked
    `# <- here` in the program.
    """

    code: str
    severity: str
    says: tuple[str, ...] = ()
    fix: str = ""


HEADLINES = {
    "unbounded_loss": Headline(
        code="LOS410",
        severity="error",
        says=("has no lower bound",),
        fix="Check the sign of each term of the loss",
    ),
    "detached_latent": Headline(
        code="GRD102",
        severity="error",
        says=("decoder.0 receives a tensor that is detached from the graph",),
        fix="Remove the `.detach()`",
    ),
    "probabilities_into_nll": Headline(
        code="STR701",
        severity="error",
        says=("softmax goes into nll_loss, which expects log-probabilities",),
        fix="Use `log_softmax`",
    ),
    "padded_text": Headline(code="OPT603", severity="warning"),
    "labels_one_row_off": Headline(code="DAT511", severity="warning"),
    "next_tokens_without_a_mask": Headline(
        code="STR712",
        severity="error",
        says=("the targets are the next inputs", "attention without a mask"),
        fix="Mask the attention",
    ),
    "unshifted_labels": Headline(
        code="STR712",
        severity="error",
        says=("the labels are not shifted",),
        fix="Shift the labels",
    ),
    "recurrence_with_a_large_gain": Headline(
        code="GRD101",
        severity="error",
        says=("the norm of the previous step, and the next norm is not finite",),
        fix="Clip the gradient norm",
    ),
    "momentum_of_the_last_batch": Headline(
        code="STR705",
        severity="warning",
        says=("has momentum 0.99", "2 rows instead of 40"),
        fix="Lower the momentum",
    ),
    "scores_not_divided": Headline(
        code="ACT206",
        severity="warning",
        says=("are not divided by sqrt(64)",),
        fix="Divide the product of queries and keys by sqrt(64)",
    ),
    "softmax_in_evaluation": Headline(
        code="STR701",
        severity="error",
        says=("probabilities go into cross_entropy in evaluation",),
        fix="In evaluation, pass the logits to the loss",
    ),
    "softmax_over_the_nodes": Headline(
        code="STR709",
        severity="error",
        says=(
            "axis of size 600",
            "size 7",
            "the softmax is called at softmax_over_the_nodes.py:39",
        ),
        fix="Apply the softmax over the classes",
    ),
    "values_against_returns": Headline(
        code="STR706",
        severity="error",
        says=("(64, 1)", "(64, 64)"),
        fix="Give both the same shape",
    ),
    "probabilities_squashed_again": Headline(
        code="STR702",
        severity="error",
        says=("sigmoid is applied twice",),
        fix="Remove one of the two sigmoids",
    ),
    "closure_that_adds_up": Headline(
        code="GRD105",
        severity="error",
        says=("not cleared after its previous evaluation",),
        fix="Call `optimizer.zero_grad()` at the beginning of the closure",
    ),
    "loss_of_a_billionth": Headline(
        code="GRD102",
        severity="warning",
        says=("AdamW adds 1e-08 to the size of the gradient", "as long as usual"),
        fix="Look for a factor that makes the loss small",
    ),
    "update_of_the_wrong_sign": Headline(
        code="LOS410",
        severity="error",
        says=("along the gradient of the loss", "its sign is wrong"),
        fix="Subtract the gradient",
    ),
    "validation_losses_kept": Headline(
        code="RUN903",
        severity="warning",
        says=("evaluations are all still in memory with their graphs",),
        fix="Evaluate under `torch.no_grad()`",
    ),
    "repeated_before_the_split": Headline(
        code="DAT510",
        severity="error",
        says=("copies of ", "are in training and in evaluation"),
        fix="Remove duplicates before splitting",
    ),
    "labels_shuffled": Headline(
        code="DAT511",
        severity="warning",
        says=("guessing gives 2.08",),
        fix="Look at some rows",
    ),
    "advantages_of_one_row": Headline(
        code="NUM001",
        severity="error",
        says=("torch.std produced it from finite values (values: 1 value)",),
        fix="Give `torch.std` at least two values",
    ),
    "strips_too_short": Headline(
        code="NUM004",
        severity="error",
        says=("row 3 has 8 frames for 9 labels",),
        fix="Rows with fewer frames than labels",
    ),
    "column_that_stands_still": Headline(
        code="NUM005",
        severity="error",
        says=("torch.div produced it from finite values", "rows.std(0)", "1 of 5 values are 0"),
        fix="Keep the divisor away from 0",
    ),
    "pairs_of_equal_rows": Headline(
        code="NUM002",
        severity="error",
        says=("the derivative of torch.sqrt is infinite", "1 of 16 values are 0", "in row 5"),
        fix="Add a small number to the input of `torch.sqrt`",
    ),
}
