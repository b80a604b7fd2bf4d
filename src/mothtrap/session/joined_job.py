"""Run of a job whose processes another program starts, such as the controller of Ray Train."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import Config
from mothtrap.session import launch, uploading
from mothtrap.session.beside_job import BesideJob
from mothtrap.session.verdict import print_verdict
from mothtrap.store import reserve


class JoinedJob:
    """Creates the run of a job, with the services that `mothtrap run` provides for a command.

    Args:
        command: stored in the run.
        config: settings of the run.
        name: name of the run; a number is added if it is taken.

    Attributes:
        attempt: folder of the first attempt.

    Raises:
        OSError: the run cannot be written.
        StoreError: the object store cannot be used.
    """

    def __init__(self, command: Sequence[str], config: Config, name: str) -> None:
        began_s = time.monotonic()
        self._config = config
        self.attempt = launch.create(name, command, config, numbered=True)
        self._uploader = uploading.begin(
            self.attempt.parent, config, say_on_stderr, numbered=True, ask=True
        )
        reserve.hold(self.attempt)
        self._beside = BesideJob(
            self.attempt,
            config,
            compacts=self._uploader is None,
            before_s=time.monotonic() - began_s,
        )

    def end(self, code: int) -> None:
        """Compare the workers a last time, record how the job ended, and print the verdict.

        Args:
            code: 0 = the job succeeded; see `RunEnd.exit_code`.
        """
        run = self.attempt.parent
        self._beside.job_ended()
        reserve.release(self.attempt)
        launch.store_end(self._beside, launch.exit_code_of(code, run, self._config))
        written_s = time.monotonic()
        self._beside.close_actions()
        print_verdict(run, self._config, since_s=written_s)
        self._beside.finish_recheck()
        if self._uploader is not None:
            self._uploader.finish()
        self._beside.compact()
