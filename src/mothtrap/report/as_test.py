"""A pytest file that makes the checks of a script again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mothtrap.core.facts.checks import CheckResult

HEAD = '''"""Checks of {script}, written by `mothtrap check --as-test`."""

from __future__ import annotations

from mothtrap.testing.asserts import assert_script_passes

COMMAND = {command}
CHECKS = [
{checks}
]
'''
BODY = """

def test_the_script_passes_its_checks() -> None:
    assert_script_passes(COMMAND, CHECKS, budget_s={budget}{expected})
"""


def as_test(command: Sequence[str], results: Sequence[CheckResult], budget_s: float) -> str:
    """Return the source of a test that expects the results of a check.

    The test runs the checks that passed, and compares the number of layers and parameters.

    Args:
        command: program and arguments.
        results: results of the checks.
        budget_s: budget of the check.
    """
    passed = [result for result in results if result.state == "done" and not result.found]
    checks = "\n".join(f'    "{one.code}",  # {_comment(one.passed)}' for one in passed)
    figures = next((one.figures for one in results if one.layers), {})
    expected = "".join(
        f", {name}={figures[name]:.0f}" for name in ("layers", "parameters") if name in figures
    )
    words = "[\n" + "".join(f"    {json.dumps(word)},\n" for word in command) + "]"
    script = next((word for word in command if word.endswith(".py")), command[-1])
    return HEAD.format(script=_comment(script), command=words, checks=checks) + BODY.format(
        budget=f"{budget_s:g}", expected=expected
    )


def _comment(text: str) -> str:
    """Return a text that cannot end a comment or docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
