"""Ledger of everything that a worker's results depend on, collected at its first step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mothtrap.core.adapters import LedgerValues, Surroundings
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.ledger import Ledger
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.core.working_folder import working_folder
from mothtrap.session.own_threads import thread_ends
from mothtrap.session.record import packages, source_texts
from mothtrap.session.record.data_files import data_files
from mothtrap.session.record.settings import Settings, seen_now, settle
from mothtrap.session.surroundings import python_facts
from mothtrap.store.layout import PACKAGES, write_ledger, write_source_texts

TIMEOUT_S = 10.0
"""Maximum wait for the ledger at the end of a process; chosen by hand: it takes 0.2 s."""


class LedgerKeeper:
    """Writes `ledger.json` of a worker on its own thread.

    Args:
        folder: folder of the worker.
        rank: rank of the worker.
        framework: name of the adapter.
        surroundings: settings that the adapters read at the first step.
        failed: called once if the ledger cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        framework: str,
        surroundings: Sequence[Surroundings],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._folder, self._rank, self._framework = folder, rank, framework
        self._surroundings, self._failed = surroundings, failed
        self._cwd = str(working_folder())
        self._seen = seen_now()
        self._thread = threading.Thread(target=self._keep, name="mothtrap-ledger", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the file to be written, with a time limit."""
        self._thread.join(TIMEOUT_S)

    def _keep(self) -> None:
        try:
            ledger = self._ledger()
            write_ledger(self._folder, ledger)
            if self._rank == 0:  # the workers of a job usually share their environment
                packages.write(self._folder / PACKAGES)
                write_source_texts(self._folder, source_texts.read(ledger))
        except Exception as err:
            self._failed(err)
        finally:
            thread_ends()

    def _ledger(self) -> Ledger:
        parts = [python_facts()]
        missing: dict[str, str] = {}
        for found in self._surroundings:
            parts.append(found.facts)
            missing |= found.missing
            try:
                parts.append(found.later())
            except Exception as err:
                missing["random"] = in_one_line(err)
        settings = self._settings(missing)
        parts.append({"parameters": settings.values})
        if image := packages.container_image(os.environ):
            parts.append({"environment": {"container.image": image}})
        try:
            parts.append({"data": data_files(self._folder.parents[1])})
        except Exception as err:
            missing["data"] = in_one_line(err)
        facts: LedgerValues = {}
        for part in parts:
            for section, values in part.items():
                facts.setdefault(section, {}).update(values)
        return Ledger(
            created_s=time.time(),
            rank=self._rank,
            framework=self._framework,
            arguments=arguments_without_secrets(sys.argv),
            cwd=self._cwd,
            facts=facts,
            missing=missing,
            given=settings.given,
            parameters_from=settings.source,
        )

    def _settings(self, missing: dict[str, str]) -> Settings:
        try:
            return settle(self._seen)
        except Exception as err:  # raised by an object of the user
            missing["parameters"] = in_one_line(err)
            return Settings({}, (), "")
        finally:
            self._seen = []
