"""User requests to a running job, carried out between two steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from mothtrap.capture.plan import Plan, in_force
from mothtrap.core.collections import Collection
from mothtrap.core.config import given
from mothtrap.core.control_requests import CaptureRequest, objection
from mothtrap.core.facts.captures import CaptureChanged


class Changes:
    """Accepts requests from any thread, and changes the plan on the training thread.

    Attributes:
        asked: requests that wait for the end of the step.
        made: answers to requests that were already carried out.

    Args:
        plan: the plan to change.
        announce: called with each known tensor that is wanted after a change.
    """

    def __init__(self, plan: Plan, announce: Callable[[int], None]) -> None:
        self._plan, self._announce = plan, announce
        self.asked: deque[tuple[str, CaptureRequest | str]] = deque()
        self.made: list[CaptureChanged] = []

    def ask(self, request: CaptureRequest) -> None:
        """Queue a request until the end of the step."""
        self.asked.append((request.id, request))

    def make(self, collections: Mapping[str, Collection]) -> None:
        """Activate collections in the step in progress; call it on the training thread."""
        step = self._plan.step
        request = CaptureRequest(id="", attempt=0, add=dict(collections))
        for tensor_id in self._plan.change(request, step):
            self._announce(tensor_id)
        self._plan.begin(step)
        self.made.append(self._answer("", step, collections, None))

    def refuse(self, request: str, error: str) -> None:
        """Reject an invalid request at the end of the step."""
        self.asked.append((request, error))

    def settle(self, step: int, *, ended: bool = False) -> list[CaptureChanged]:
        """Carry out the queued requests; return the answers.

        Args:
            step: the step that begins.
            ended: there is no next step, so all requests are rejected.
        """
        answers, self.made = self.made, []
        while self.asked:
            name, request = self.asked.popleft()
            from_step, added = step, dict[str, Collection]()
            if isinstance(request, str):
                error: str | None = request
            elif ended:
                error = "the job has ended"
            else:
                from_step, added = max(step, request.from_step), request.add
                error = self._carry_out(request, from_step)
            answers.append(self._answer(name, from_step, added, error))
        return answers

    def _answer(
        self, request: str, from_step: int, added: Mapping[str, Collection], error: str | None
    ) -> CaptureChanged:
        return CaptureChanged(
            step=self._plan.step,
            request=request,
            from_step=from_step,
            collections=in_force(self._plan.streams),
            added={} if error else {name: given(each) for name, each in added.items()},
            error=error or "",
        )

    def _carry_out(self, request: CaptureRequest, step: int) -> str | None:
        """Change the plan; return the reason if that is impossible."""
        error = objection(request, in_force(self._plan.streams))
        if error is None:
            for tensor_id in self._plan.change(request, step):
                self._announce(tensor_id)
        return error
