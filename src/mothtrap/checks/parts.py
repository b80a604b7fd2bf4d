"""Parts of a training script that can be checked alone."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.checks.check import Check
from mothtrap.core.check_plan import Part

ALONE = "PRE601"
"""Code of the check that reports how a part ran."""
RESUMES = "PRE203"
"""Code of the check that resumes the script."""
PERSON = "PRE403"
"""Code of the check that takes samples for a person."""
CONTRACT = ("PRE305", "PRE502")
"""Codes of the checks that learn, or compare, the layers and the inputs."""
BELONG: dict[Part, tuple[str, ...]] = {
    "data": (ALONE, "PRE3", "PRE401"),
    "model": ("PRE101", "PRE102", "PRE104", "PRE106", "PRE108", "PRE109", "PRE110", "PRE202",
              "PRE501", "STR707"),
    "loss": ("PRE103", "PRE104", "PRE107"),
    "callbacks": (ALONE,),
}  # fmt: skip
"""Codes of the checks of a part, or families of codes."""


def chosen(
    checks: Sequence[Check],
    part: Part | None = None,
    *,
    resumes: bool = False,
    contract: bool = False,
    asks: bool = False,
) -> tuple[Check, ...]:
    """Return the checks to run.

    Args:
        checks: Checks selected by the settings.
        part: The only part to check; None = all.
        resumes: Whether a command that resumes the script is known.
        contract: Whether layers and inputs are learned or compared.
        asks: Whether a person predicts samples.
    """
    without = [*([] if resumes else [RESUMES]), *([] if contract else CONTRACT)]
    without += [] if asks else [PERSON]
    if part is not None:
        checks = [check for check in checks if check.code.startswith(BELONG[part])]
    else:
        without.append(ALONE)
    return tuple(check for check in checks if check.code not in without)
