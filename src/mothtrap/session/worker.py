"""A process of a job, from its first optimizer step to its end."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mothtrap.capture.channel import Channel
from mothtrap.capture.containment import Containment
from mothtrap.capture.histograms import streams_of_run
from mothtrap.capture.logged import Logged
from mothtrap.capture.readiness import Looks
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.reductions import Queue, ReducedFirst, Reductions
from mothtrap.capture.shedding import BLOCK_S
from mothtrap.capture.succession import Succession
from mothtrap.core import registry
from mothtrap.core.actions import lasting
from mothtrap.core.adapters import Environment, Handle, Job
from mothtrap.core.check_plan import is_checked
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.findings import Finding
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.monitor.catalogue import left_out, load_rules, switched_off
from mothtrap.monitor.monitor import Monitor
from mothtrap.monitor.own_checks import is_own
from mothtrap.session.attached import STATISTICS, AttachedAdapters
from mothtrap.session.ending import told
from mothtrap.session.job_stop import JobStop
from mothtrap.session.ledger import LedgerKeeper
from mothtrap.session.live_monitor import LiveMonitor
from mothtrap.session.own_threads import own_threads_s
from mothtrap.session.record.keeper import RecordKeeper
from mothtrap.session.repository import SourceKeeper, script_folder
from mothtrap.session.request_poller import RequestPoller
from mothtrap.session.snapshots import Snapshots, Taker, onset_needs
from mothtrap.session.stall_observer import StallObserver
from mothtrap.session.unobserved import follows_from_workers, store_facts, store_reasons
from mothtrap.store import reserve
from mothtrap.store.layout import worker_folder
from mothtrap.store.processes import start_ticks
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.jobs.process_job import ProcessJob

if TYPE_CHECKING:
    from mothtrap.core.rule import Rule
    from mothtrap.monitor.reference import Reference


class Worker:
    """Connects recorder, writer and rules; idle until the first step closes.

    Args:
        attempt: creates or returns the folder of the attempt; called at the first step. If it
            returns None, nothing can be stored, but rules are evaluated.
        config: settings for capture and rules.
        arrays: the `mothtrap.statistics` module for values that do not come from an adapter.
        say: prints one line for the user.
        last_word: called with the run's folder after everything is closed.
        launched: whether this process belongs to a job that a launcher of mothtrap has started.
        is_job: whether the launcher itself has started this process.
        is_compared: whether this worker is compared with others; queried once its attempt exists.

    Attributes:
        config: settings for capture and rules.
        job: job of this process.
        adapters: adapters of all frameworks in the job.
        record: stores everything that the script logs, except numbers and tensors.
        start_s: time of mothtrap's imports in seconds.
        saved_s: estimated seconds saved on garbage collection.
    """

    def __init__(
        self,
        attempt: Callable[[], Path | None],
        config: Config,
        arrays: str,
        say: Callable[[str], None],
        last_word: Callable[[Path, Config], None] | None = None,
        launched: bool = False,
        is_job: bool = False,
        is_compared: Callable[[], bool] = lambda: False,
    ) -> None:
        self._last_word, self._launched, self._is_compared = last_word, launched, is_compared
        self._is_job, self.start_s, self.saved_s = is_job, 0.0, 0.0
        self._afterwards: list[Callable[[], object]] = []
        self._attempt, self.config, self._say = attempt, config, say
        self._rules = (
            () if config.capture == "off" else load_rules(config, checks=is_checked(os.environ))
        )
        self._containment = Containment(say)
        self._parts: dict[str, tuple[Queue, Callable[[], None]]] = {}
        self._folder: Path | None = None
        self._rank = 0
        self._lost: OSError | None = None
        self._supervised, self._opened, self._alive = False, False, True
        self._closing = threading.Event()
        self._pid = self._made_by = os.getpid()
        reducer: Any = registry.load(STATISTICS, arrays)
        needs = [*onset_needs(config), *(need for rule in self._rules for need in rule.needs)]
        own = [need for rule in self._rules if is_own(rule) for need in rule.needs]
        self.recorder: Recorder[Any] = Recorder(
            reducer,
            streams_of_run(config, needs, own),
            self._containment,
            overhead=config.overhead,
            on_first_step=self._open,
            raw_bytes=int(config.queue_mb * 2**20),
            raw_wait_s=BLOCK_S if config.on_full == "block" else 0.0,
            looks=Looks(needs),
        )
        self.recorder.before_guard_stops = self._save
        self.job = ProcessJob(self.recorder, config)
        self.adapters = AttachedAdapters(self.job)
        self.logged = Logged(self.recorder, say)
        self.record = RecordKeeper(self.recorder.notes, lambda: self.recorder.plan.step, say)
        self._requests: RequestPoller | None = None
        self._stalls: StallObserver | None = None
        self._snapshots = Snapshots(
            config,
            self.recorder.notes.observe,
            say,
            functools.partial(self._failed, "snapshots"),
        )
        self._stop: JobStop | None = None
        self._keepers: list[LedgerKeeper | SourceKeeper] = []

    @property
    def path(self) -> Path | None:
        """Folder of the run, once it exists."""
        return self._folder.parent if self._folder is not None else None

    def attach(self, adapter: AdapterSpec, begin: Callable[[Job], Handle] | None = None) -> Handle:
        """Attach an adapter; its hooks are removed at the end.

        Args:
            adapter: adapter of a framework.
            begin: function that attaches it to a job; default: to the whole process.
        """
        handle = self.adapters.attach(adapter, begin)
        self._snapshots.taking = self._snapshots.taking or handle.snapshots
        return handle

    def detach(self, handle: Handle) -> None:
        """Remove the hooks of one adapter; the other adapters continue."""
        self._contained("closing", lambda: self.adapters.detach(handle))

    def add_collections(self, collections: Mapping[str, Collection]) -> None:
        """Capture more data from the step in progress on."""
        self._contained("collections", lambda: self.recorder.changes.make(collections))

    def afterwards(self, act: Callable[[], object]) -> None:
        """Call a function after everything is closed and the verdict is printed."""
        self._afterwards.append(act)

    def forked(self) -> bool:
        """Continue in a forked child, or give up there; return whether the worker is still in use.

        Before the first step, there are no threads, locks or files, so a child that trains can
        become a separate worker. Later, these are missing in the child.
        """
        if self._alive and not self._opened and not self._containment.failures:
            self._pid = os.getpid()
            return True
        self.leave()
        return False

    def leave(self) -> None:
        """Stop observing without closing anything, because this process must not be recorded."""
        self._alive = False
        self.recorder.sinks.clear()
        self.recorder.leave()
        self.adapters.abandon()

    def close(self, error: BaseException | None = None) -> None:
        """Close the last step, drain the queues, and seal the files.

        Args:
            error: error that left the watched block, if any.
        """
        if not self._alive or os.getpid() != self._pid:
            return
        began_s, self._alive, self._containment.left_by = time.perf_counter(), False, error
        if self._requests is not None:
            self._requests.close()
        for part in [each for each in (self._stop, self._stalls) if each is not None]:
            part.close()
        place = self._contained("closing", self.adapters.environment)
        taker = self._contained("closing", self.adapters.taker)
        self.recorder.ends = True
        for handle in self.adapters.handles():
            self.detach(handle)
        # Before the queues are drained, which is not training time.
        ending = self._contained("closing", self._ending)
        if ending is not None and not self._opened and self.config.capture != "off":
            rank = place.rank if place is not None else None
            self._contained("run folder", lambda: self._store_reasons(ending, rank, taker))
        self._contained("record", self.record.close)
        self._contained("closing", self.recorder.emit_facts)
        self._close_part("rules")  # failures there are still reported in the last record
        self._contained("snapshots", self._snapshots.close)
        if ending is not None:
            closed = ending.closed_after(time.perf_counter() - began_s)
            self._contained("closing", lambda: self.recorder.finish(closed))
        self._closing.set()
        writer = self._parts.get("writer")
        self._close_part("writer")
        if writer is not None and self._folder is not None:
            reserve.release(worker_folder(self._folder, self._rank))
        if ending is not None and writer is not None and self._containment.is_off("writer"):
            # The failure is queried again, because the disk may not even accept this; other errors
            # of the writer were reported.
            with suppress(Exception):
                self._store_end(ending, getattr(writer[0], "lost", 0))
        for keeper in self._keepers:
            self._contained("ledger", keeper.close)
        if self._lost is not None and not self._containment.is_off("writer"):
            self._failed("findings", self._lost)  # otherwise the disk was reported
        if self._last_word is not None and self.path is not None and self._rank == 0:
            self._last_word(self.path, self.config)
        self._report_missing_run()
        for act in self._afterwards:
            self._contained("closing", act)

    def _report_missing_run(self) -> None:
        """Report that a watched model has no run, unless another message reports it."""
        silent = self.path is None and not self._opened and not self._launched
        if silent and self.config.capture != "off" and os.getpid() == self._made_by:
            self._say(
                "mothtrap: watch: nothing was recorded, because no step was observed; did you "
                "pass the optimizer that trains the model? (without an optimizer, call "
                "dbg.step() after each step)"
            )

    def _store_end(self, ending: WorkerEnded, lost: int) -> None:
        """Store how the process ended, and how much data is lost if its writer failed."""
        failed = [each for each in self._containment.failures if each.part == "writer"]
        reason = failed[0].error if failed else "the writer failed"
        dropped = Dropped(step=ending.step, what="steps", count=lost, reason=reason)
        if self._folder is not None:
            folder = worker_folder(self._folder, self._rank)
            store_facts(folder, [*failed, *[dropped] * (lost > 0), ending])

    def _store_reasons(self, ending: WorkerEnded, rank: int | None, taker: Taker | None) -> None:
        """Store the reason why there was no step, unless the process never trained.

        An exception counts as a reason in the job's own process and in ranks. It does not count in
        a helper process, such as a test of an import, or if workers that the job started have ended
        it.
        """
        notes = self.recorder.notes
        reasons = (*self._containment.failures, *notes.unstepped, *self.record.waiting)
        failed = ending.exception is not None and (
            rank is not None or (self._is_job and not self._is_of_workers())
        )
        attempt = self._folder = self._attempt() if reasons or failed else None
        if attempt is not None:
            judged = self._rules, Quiet.of(self.config)
            folder, found = store_reasons(attempt, rank, reasons, ending, *judged)
            self.record.open(folder)
            if found:
                self._open_ledger(attempt, folder)
            self._snapshots.open(attempt, rank or 0, taker)
            self._snapshots.close()
            kept = [f for f in notes.take()[1] if isinstance(f, SnapshotKept)]
            if kept:
                store_facts(worker_folder(attempt, rank or 0), kept)

    def _is_of_workers(self) -> bool:
        opened = self._attempt()
        return opened is not None and follows_from_workers(opened)

    def _close_part(self, part: str) -> None:
        if part not in self._parts:
            return
        channel, close = self._parts.pop(part)
        if not channel.close():
            self._say(f"mothtrap: {part}: too slow to finish; the last steps may be missing")
        elif not self._containment.is_off(part):
            self._contained(part, close)

    def _ending(self) -> WorkerEnded:
        return WorkerEnded(
            step=self.recorder.steps,
            steps=self.recorder.steps,
            own_s=self.recorder.times.own_s,
            capture_s=self.recorder.captures.cost_s,
            asked_s=self.recorder.plan.budgets.asked_s,
            wall_s=self.recorder.times.wall_s,
            start_s=self.start_s,
            saved_s=self.saved_s,
            beside_s=own_threads_s(),
            at_s=time.time(),
            **told(self._containment.ended_by),
        )

    def _open(self) -> None:
        """Create the worker's folder when the first step closes; called on the training thread."""
        self._opened = True
        environment = self.adapters.environment()
        rank = environment.rank
        self._rank = rank or 0
        if self.config.workers == "rank0" and self._rank:
            self.leave()
            return
        attempt, changes = None, self.recorder.changes
        self._stop = self._stop or self._connected_stop(environment)
        recorder_ask = functools.partial(self._snapshots.ask, otherwise=changes.ask)
        ask = functools.partial(self._stop.ask, otherwise=recorder_ask)
        if self.config.capture != "off":
            attempt = self._folder = self._contained("run folder", self._attempt)
        if attempt is not None:
            self._contained("writer", lambda: self._open_writer(attempt, environment))
            self._contained(
                "snapshots",
                lambda: self._snapshots.open(attempt, self._rank, self.adapters.taker()),
            )
            self._requests = self._contained(
                "requests", lambda: RequestPoller(attempt, ask, changes.refuse)
            )
        all_workers = environment.size > 1 and self.config.workers != "rank0"
        self._supervised = all_workers and self._is_compared()
        if attempt is not None and (environment.size > 1 or self.adapters.reading is not None):
            given = attempt, self._rank, self.recorder, self.adapters
            signs = self.config.workers == "merged"
            observe = functools.partial(StallObserver.of, *given, gives_signs=signs)
            self._stalls = self._contained("stalls", observe)
        if self.config.evaluate == "job" and (self._rules or switched_off(self.config)):
            self._contained("rules", lambda: self._open_monitor(attempt))
        self.recorder.notes.observe(
            WorkerStarted(
                step=0,
                rank=self._rank,
                world_size=environment.size,
                pid=os.getpid(),
                pid_ticks=start_ticks(os.getpid()),
                host=socket.gethostname(),
                framework=self.adapters.framework,
                versions=dict(environment.versions),
            )
        )

    def _connected_stop(self, environment: Environment) -> JobStop:
        stop = JobStop.of(self.config, self.adapters, environment)
        stop.connect(self.recorder, self._say)
        return stop

    def _save(self, together: bool) -> None:
        """Call the `on_stop` functions, possibly in the first step, before anything is opened."""
        if self._stop is None:
            self._stop = self._connected_stop(self.adapters.environment())
        self._stop.save(together)

    def _open_writer(self, attempt: Path, environment: Environment) -> None:
        from mothtrap.session import writing
        from mothtrap.store.layout import claim_worker
        from mothtrap.store.size_limit import share_bytes

        self._rank, folder = claim_worker(attempt, environment.rank)
        reserve.hold(folder)
        self._contained("ledger", lambda: self._open_ledger(attempt, folder))
        config = self.config
        limit_bytes = share_bytes(attempt.parent, config.max_run_mb, environment.size)
        self._contained("record", lambda: self.record.open(folder, limit_bytes))
        recorder = self.recorder
        reductions = Reductions(
            recorder.tensors, lambda: recorder.plan.reductions, self._containment
        )
        opened = functools.partial(
            writing.open_log, folder, config, limit_bytes, self._closing.wait, self._say
        )
        if config.writer == "process":
            side = writing.start_beside(
                folder, config, limit_bytes, self._process_failed, self._say
            )
            if side is not None:
                late, queue = writing.LateLog(opened), functools.partial(self._channel, "writer")
                here = functools.partial(queue, late.append, idle=late.tend)
                channel = ReducedFirst(Succession(side, here), queue, reductions)
                self._parts["writer"] = channel, late.close  # the process seals its own files
                recorder.sinks.append(channel)
                return
        log = opened()

        def append(records: Sequence[StepRecord]) -> None:
            log.append(reductions.work_out(records))

        self._add_part("writer", append, log.close, idle=log.tend)

    def _process_failed(self, err: BaseException) -> None:
        err.add_note(
            "from now on, a thread of the job writes; data that was not written yet may be missing"
        )
        self._failed("writer process", err)

    def _open_ledger(self, attempt: Path, folder: Path) -> None:
        failed = functools.partial(self._failed, "ledger")
        found, framework = self.adapters.surroundings(), self.adapters.framework
        self._keepers.append(LedgerKeeper(folder, self._rank, framework, found, failed))
        if not self._launched and not self._rank:
            self._keepers.append(SourceKeeper(attempt, script_folder(sys.argv)))

    def _open_monitor(self, attempt: Path | None) -> None:
        rules = [rule for rule in self._rules if not (self._supervised and rule.compares)]
        reference = None
        if self.config.reference:
            reference = self._contained("reference run", lambda: self._open_reference(rules))
        monitor = LiveMonitor(
            Monitor(
                rules,
                self._rank,
                quiet=Quiet.of(self.config),
                reference=reference,
                switched_off=switched_off(self.config),
            ),
            self._say if self._rank == 0 else None,
            self._findings_lost,
            self._found,
            lasting(self.config.actions),
        )
        if attempt is not None:
            how = self.config.durability, self.config.roll_s
            self._contained("findings", lambda: monitor.keep_in(attempt, self._rank, *how))
        # Data that the rules missed is a fact of the run, so it is passed to the writer.
        lost = self.recorder.notes.observe
        self._add_part(
            "rules", monitor.consume, monitor.close, on_dropped=lost, raw=False, idle=monitor.tend
        )
        for fault in left_out():
            self.recorder.notes.blind(0, f"rule {fault.what}", fault.reason)

    def _open_reference(self, rules: Sequence[Rule]) -> Reference:
        from mothtrap.monitor.reference import open_reference

        needs, config = [need for rule in rules for need in rule.needs], self.config
        return open_reference(config.reference, config.runs_dir, needs, self._rank)

    def _add_part(
        self,
        part: str,
        consume: Callable[[Sequence[StepRecord]], None],
        close: Callable[[], None],
        **options: Any,
    ) -> None:
        channel = self._channel(part, consume, **options)
        self._parts[part] = channel, close
        self.recorder.sinks.append(channel)

    def _channel(
        self,
        part: str,
        consume: Callable[[Sequence[StepRecord]], None],
        on_dropped: Callable[[Dropped], None] | None = None,
        *,
        raw: bool = True,
        idle: Callable[[], None] | None = None,
    ) -> Channel:
        return Channel(
            part,
            consume,
            lambda err: self._failed(part, err),
            limit_bytes=self.config.queue_mb * 2**20,
            on_full=self.config.on_full,
            on_dropped=on_dropped,
            raw=raw,
            idle=idle,
        )

    def _found(self, finding: Finding) -> None:
        """Handle a new or worse finding, which may trigger captures and snapshots."""
        self.recorder.plan.call(finding.code)
        self._snapshots.found(finding)

    def _findings_lost(self, err: OSError) -> None:
        self._lost = err

    def _failed(self, part: str, err: BaseException) -> None:
        failure = self._containment.report(part, err, step=self.recorder.steps)
        if failure is not None:
            self.recorder.notes.observe(failure)

    def _contained(self, part: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception as err:
            self._failed(part, err)
            return None
