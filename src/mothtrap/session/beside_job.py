"""Services of the launcher while the job runs: worker comparison, actions, machine metrics.

The modules for this take a third of a second to import. A thread imports them while the job starts,
so that the job does not wait for them. It also imports modules for the verdict.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mothtrap.capture.containment import Containment, say_on_stderr
from mothtrap.core.config import Config
from mothtrap.store.manifests import Node
from mothtrap.store.writers import wait_for_writers

if TYPE_CHECKING:
    from mothtrap.session.compactor import Compactor
    from mothtrap.session.machine import MachineSampler
    from mothtrap.session.node_merging import NodeMerging
    from mothtrap.session.reacting import Executor
    from mothtrap.session.rechecking import Rechecker
    from mothtrap.session.supervision import Supervision

WRITERS_TIMEOUT_S = 30.0
"""Time for which writer processes may still write after the job has ended."""


class BesideJob:
    """Services that run beside a job, in threads.

    Args:
        attempt: the folder of the attempt.
        config: settings of the run.
        compacts: whether to compact files of the run while they stay on this machine.
        before_s: seconds that this process used before the job.
        node: merges its workers; None = their logs are not merged.

    Attributes:
        children: receives the process id of the job.
        ended_s: time at which the job ended, by `time.monotonic`.
    """

    def __init__(
        self,
        attempt: Path,
        config: Config,
        *,
        compacts: bool,
        before_s: float,
        node: Node | None = None,
    ) -> None:
        self._attempt, self._config, self._compacts = attempt, config, compacts
        self._node = node
        self._merging: NodeMerging | None = None
        self.children: list[int] = []
        self.ended_s, self._before_s = time.monotonic(), before_s
        self._sampler: MachineSampler | None = None
        self._compactor: Compactor | None = None
        self._executor: Executor | None = None
        self._supervision: Supervision | None = None
        self._rechecker: Rechecker | None = None
        self._thread = threading.Thread(target=self._begin, name="mothtrap beside", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        try:
            self._begin_services()
            import mothtrap.session.verdict

            _ = mothtrap.session.verdict  # imported here so that the verdict is not delayed
        except Exception as err:  # whatever fails here, the job must not
            Containment(say_on_stderr).report("work outside the job", err)

    def _begin_services(self) -> None:
        from mothtrap.monitor.catalogue import left_out
        from mothtrap.session import machine, reacting
        from mothtrap.session.compactor import Compactor
        from mothtrap.session.supervision import Supervision

        self._executor = reacting.begin(
            self._attempt,
            self._config,
            say_on_stderr,
            lambda: self.children[-1] if self.children else None,
        )
        if self._config.capture != "off":
            self._sampler = machine.begin(self._attempt, say_on_stderr)
        if self._compacts:
            self._compactor = Compactor(self._attempt.parent, say_on_stderr)
        for fault in left_out():
            say_on_stderr(f"mothtrap: rule {fault}")
        if self._config.recheck:
            from mothtrap.session.rechecking import Rechecker

            self._rechecker = Rechecker(self._attempt.parent, say_on_stderr)
            self._rechecker.begin()
        if self._node is not None:
            from mothtrap.session.node_merging import NodeMerging

            self._merging = NodeMerging(self._attempt, self._config, self._node)
            self._merging.begin()
        supervision = Supervision(self._attempt, self._config)
        supervision.begin()
        self._supervision = supervision

    @property
    def latest(self) -> Path:
        """Folder of the last attempt of the launch."""
        return self._supervision.latest if self._supervision else self._attempt

    @property
    def lost(self) -> tuple[int, ...]:
        """Workers that never closed their record; see `Supervision.lost`."""
        return self._supervision.lost if self._supervision else ()

    @property
    def order_seen(self) -> bool:
        """Return whether the first worker in `lost` is known to have died before the others."""
        return self._supervision is None or self._supervision.order_seen

    @property
    def was_killed(self) -> bool:
        """Return whether an action ended the job with a signal."""
        return self._executor is not None and self._executor.was_killed

    def job_ended(self) -> None:
        """Wait for writers, and end all services except actions."""
        self.ended_s = time.monotonic()
        self._thread.join()
        if self._sampler is not None:
            self._sampler.close()
        wait_for_writers(self.latest, WRITERS_TIMEOUT_S)
        if self._merging is not None:
            self._merging.close()
        if self._supervision is not None:
            self._supervision.close()

    @property
    def launcher_s(self) -> float:
        """Return the seconds this process spent before the job began and after it ended."""
        return self._before_s + time.monotonic() - self.ended_s

    def close_actions(self) -> None:
        """Run the actions for the end of the job, then stop."""
        if self._executor is not None:
            self._executor.close()

    def finish_recheck(self) -> None:
        """Wait for the recheck of a bad step, starting it if necessary."""
        if self._rechecker is not None:
            self._rechecker.finish()

    def compact(self) -> None:
        """Compact the files of the run once everything is written."""
        if self._compactor is not None:
            self._compactor.finish()
