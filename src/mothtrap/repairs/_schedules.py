"""Places at which a learning rate schedule is stepped."""

from __future__ import annotations

import libcst as cst

from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    last_name,
    loops_around,
    only,
    owner,
)


class Schedule:
    """The only schedule of a script, and the statement that steps it.

    Args:
        script: script with one schedule.

    Attributes:
        made: the call that creates the schedule.
        steps: the statement that steps it.
        loops: loops around this statement, innermost first.

    Raises:
        NoCertainRepairError: there is no single schedule, or it is stepped in several places.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        found = [
            one
            for one in script.every(cst.Assign)
            if isinstance(one.value, cst.Call) and is_schedule(one.value)
        ]
        assignment = only(found, "learning rate schedule")
        assert isinstance(assignment.value, cst.Call)
        self.made = assignment.value
        name = code(assignment.targets[0].target)
        calls = [
            one
            for one in script.calls("step")
            if (of := owner(one)) is not None and code(of) == name
        ]
        self._call = only(calls, f"call to {name}.step()")
        if self._call.args:
            raise NoCertainRepairError(f"{name}.step() gets an argument")
        self.steps = script.statement(self._call)
        block = script.block(self.steps)
        if not isinstance(self.steps, cst.SimpleStatementLine) or len(block) < 2:
            raise NoCertainRepairError(f"{name}.step() is called under a condition")
        self.loops = loops_around(script, self._call)
        self._refuse_conditions(name)

    def after_each_pass(self) -> str:
        """Return the source with the schedule stepped after the loop over the batches."""
        self._batch_loop()
        if len(self.loops) < 2:
            raise NoCertainRepairError("the loop over batches is not inside a loop over epochs")
        return self._script.with_statements(
            after=[(self.loops[0], code(self.steps))], without=[self.steps]
        )

    def after_each_step(self) -> str:
        """Return the source with the schedule stepped after the optimizer."""
        backward = only(self._script.calls("backward"), "call to backward()")
        loops = loops_around(self._script, backward)
        if len(loops) < 2 or loops[1:] != self.loops:
            raise NoCertainRepairError("decide where the schedule must be stepped in each batch")
        steps = [
            one
            for one in self._script.calls("step")
            if not one.args and one is not self._call and loops_around(self._script, one) == loops
        ]
        step = only(steps, "optimizer step in the loop over the batches")
        statement = self._script.statement(step)
        return self._script.with_statements(
            after=[(statement, code(self.steps))], without=[self.steps]
        )

    def _batch_loop(self) -> None:
        """Check that the innermost loop around the step trains."""
        backward = only(self._script.calls("backward"), "call to backward()")
        if not self.loops or loops_around(self._script, backward) != self.loops:
            raise NoCertainRepairError("the schedule is not stepped in the training loop")

    def _refuse_conditions(self, name: str) -> None:
        for one in self._script.parents(self._call):
            if isinstance(one, cst.For | cst.While):
                return
            if isinstance(one, cst.If):
                raise NoCertainRepairError(f"{name}.step() is called under a condition")


def is_schedule(call: cst.Call) -> bool:
    """Return whether a call creates a learning rate schedule."""
    name = last_name(call.func)
    return "lr_scheduler" in code(call.func) or name.endswith(("LR", "Restarts"))
