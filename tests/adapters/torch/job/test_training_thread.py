"""Several threads of one process train: one of them is observed, and none is disturbed."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.job.training_thread import EARLY, TrainingThread
from mothtrap.capture.logged import log_number
from mothtrap.core.facts.record import CheckpointSaved

LEFT_OUT = "training in other threads"
SHARED = "gradients and updates"


class Apart:
    """Runs pieces of code in a thread that stays alive between them and is not joined."""

    def __init__(self) -> None:
        self._run: Callable[[], Any] | None = None
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            if self._run is None:
                return
            try:
                self._run()
            except BaseException as err:
                self._failed = err
            self._done.release()

    def __call__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._go.release()
        assert self._done.acquire(timeout=60)
        if self._failed is not None:
            raise self._failed

    def end(self) -> None:
        self._run = None
        self._go.release()
        self._thread.join(60)


def once_waited_for(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that calls `run` once the thread that called this waits for another."""
    waiting, pause = threading.get_ident(), threading.Event()

    def names() -> set[str]:
        frame, found = sys._current_frames()[waiting], set()
        while frame is not None:
            found.add(frame.f_code.co_name)
            frame = frame.f_back
        return found

    def late() -> Any:
        while names().isdisjoint({"join", "result"}):
            pause.wait(0.001)
        return run()

    return late


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    train(model, optimizer, steps=1)


def steps_of(seen: Seen, name: str) -> int:
    return len(seen.scalars("gradient_state", of=name))


def test_of_two_threads_the_first_that_trains_is_observed() -> None:
    model, other = classifier(), classifier()
    beside = Apart()
    with watched() as seen:
        optimizer, theirs = sgd(model), sgd(other)
        for _ in range(4):
            step(model, optimizer)
            beside(lambda: step(other, theirs))
    beside.end()
    assert len(seen.steps()) == 4
    assert (steps_of(seen, "SGD"), steps_of(seen, "SGD#1")) == (4, 0)
    assert len(seen.scalars("loss")) == 4
    assert seen.blind().count(LEFT_OUT) == 1


def test_threads_at_the_same_time_change_nothing_and_are_not_mixed() -> None:
    def trained(seed: int, optimizers: Any = torch.optim.Adam) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        model = nn.Linear(6, 3)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        optimizer = optimizers(model.parameters(), lr=0.01)
        for _ in range(30):
            x, y = torch.randn(4, 6, generator=generator), torch.arange(4) % 3
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    plain = [trained(seed) for seed in range(6)]
    with watched() as seen, ThreadPoolExecutor(3) as pool:
        found = list(pool.map(trained, range(6)))
    for before, after in zip(plain, found, strict=True):
        assert all(map(torch.equal, before, after))
    assert not any(seen.scalars("stale_gradient"))
    assert set(seen.scalars("micro_batches")) == {1.0}


def test_gradients_of_another_thread_are_not_read() -> None:
    class Guarded(nn.Parameter):
        """Fails if its gradient is read by another thread than its own."""

        allowed = 0

        @property
        def grad(self) -> Any:
            assert self.allowed in (0, threading.get_ident())
            return torch.Tensor.grad.__get__(self)

        @grad.setter
        def grad(self, value: Any) -> None:
            torch.Tensor.grad.__set__(self, value)

    model, other = classifier(), nn.Linear(6, 3, bias=False)
    other.weight = Guarded(other.weight.detach())
    beside = Apart()
    with watched() as seen:
        optimizer, theirs = sgd(model), sgd(other)

        def begin() -> None:
            other.weight.allowed = threading.get_ident()
            other(torch.randn(4, 6)).square().mean().backward()

        step(model, optimizer)
        beside(begin)
        for _ in range(3):
            train(model, optimizer, steps=1)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            beside(theirs.step)
    beside.end()
    assert len(seen.steps()) == 4


def test_a_thread_is_observed_when_the_one_before_has_ended() -> None:
    with watched() as seen:
        threads = []
        for _ in range(3):
            held = threading.Event()  # no thread is given the number of the previous one
            model = classifier()
            thread = threading.Thread(target=lambda m=model: train(m, sgd(m), steps=3))
            waiting = threading.Thread(target=held.wait)
            thread.start()
            thread.join()
            waiting.start()
            threads.append((held, waiting))
        for held, waiting in threads:
            held.set()
            waiting.join()
    assert len(seen.steps()) == 9
    assert LEFT_OUT not in seen.blind()


def test_a_thread_is_observed_while_the_one_before_waits_for_it() -> None:
    model, other = classifier(), classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        three, four = (lambda n=n: train(other, sgd(other), steps=n) for n in (3, 4))
        thread = threading.Thread(target=once_waited_for(three))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(once_waited_for(four)).result()
            train(model, optimizer, steps=2)
    assert len(seen.steps()) == 11
    assert not any(seen.scalars("stale_gradient"))


def test_steps_of_one_training_may_be_made_by_several_threads_in_turn() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
            for _ in range(3):
                for pool in (first, second):
                    pool.submit(once_waited_for(lambda: step(model, optimizer))).result()
    assert len(seen.steps()) == 6
    assert not {LEFT_OUT, SHARED} & set(seen.blind())


def test_a_training_is_not_taken_up_in_its_middle() -> None:
    model, other = classifier(), classifier()
    beside = Apart()
    with watched() as seen, ThreadPoolExecutor(1) as pool:
        optimizer = sgd(model)
        step(model, optimizer)
        theirs = sgd(other)
        beside(lambda: train(other, theirs, steps=EARLY))

        def join() -> None:
            beside(lambda: step(other, theirs))

        pool.submit(once_waited_for(join)).result()
        step(model, optimizer)
    beside.end()
    assert len(seen.steps()) == 2


def test_threads_that_train_the_same_parameters_leave_only_losses() -> None:
    model = nn.Linear(6, 3)
    beside = Apart()
    with watched() as seen:
        optimizer, theirs = sgd(model), sgd(model)
        train(model, optimizer, steps=2)
        for _ in range(5):
            beside(lambda: train(model, theirs, steps=1, set_to_none=False))
            train(model, optimizer, steps=1, set_to_none=False)
    beside.end()
    assert len(seen.scalars("loss")) == 7
    assert seen.blind().count(SHARED) == 1
    assert set(seen.rows("gradient:weight", "l2")) == {0, 1}
    assert len(seen.rows("weight:weight", "l2")) == 7
    assert len(seen.scalars("stale_gradient", of="SGD")) == 2


def test_one_optimizer_that_two_threads_step_is_shared() -> None:
    model = nn.Linear(6, 3)
    beside = Apart()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            step(model, optimizer)
            beside(lambda: step(model, optimizer))
    beside.end()
    assert seen.blind().count(SHARED) == 1


def test_a_thread_that_goes_on_with_the_training_shares_nothing() -> None:
    model = nn.Linear(6, 3)
    with watched() as seen:
        optimizer = sgd(model)
        step(model, optimizer)
        beside = Apart()
        beside(lambda: train(model, optimizer, steps=3))  # no one waits for it yet
        assert seen.tracer.optimizers.other_threads.shared
        beside.end()
        train(model, optimizer, steps=3)
    assert SHARED not in seen.blind()
    assert set(seen.rows("gradient:weight", "l2")) == {0, 1, 2, 3}
    assert not any(seen.scalars("stale_gradient"))


def test_a_pool_that_trains_in_between_shares_nothing() -> None:
    model = nn.Linear(6, 3)
    done = threading.Event()
    with watched() as seen, ThreadPoolExecutor(1) as pool:
        optimizer = sgd(model)
        step(model, optimizer)
        future = pool.submit(lambda: (train(model, optimizer, steps=2), done.set()))
        while not done.is_set():
            sum(range(1000))  # other work
        future.result()
        train(model, optimizer, steps=2)
    assert SHARED not in seen.blind()
    assert len(seen.rows("gradient:weight", "l2")) >= 3


def test_a_thread_that_is_observed_takes_over_shared_parameters_from_one_that_waits() -> None:
    model = nn.Linear(6, 3)
    begun, goes_on = threading.Event(), threading.Event()
    with watched() as seen:
        optimizer = sgd(model)
        step(model, optimizer)

        def work() -> None:
            step(model, optimizer)
            begun.set()
            goes_on.wait(60)
            late()

        late = once_waited_for(lambda: train(model, optimizer, steps=3))
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(60)
        goes_on.set()
        thread.join()
        step(model, optimizer)
    assert SHARED not in seen.blind()
    assert len(seen.rows("gradient:weight", "l2")) == 5


def test_a_step_whose_beginning_was_not_seen_does_not_end() -> None:
    model, other = classifier(), classifier()
    beside = Apart()
    with watched() as seen:
        theirs = sgd(other)
        first = threading.Thread(target=lambda: step(model, sgd(model)))
        beside(lambda: None)
        first.start()
        first.join()
        seen.tracer.step_ended(theirs, False)  # the previous thread has ended meanwhile
    beside.end()
    assert len(seen.steps()) == 1
    assert seen.tracer.optimizers.steps_of(theirs) == 0


def test_another_framework_in_a_side_thread_is_no_training_of_pytorch() -> None:
    model = classifier()
    beside = Apart()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            step(model, optimizer)
            beside(seen.tracer.interrupted)
        assert len(seen.steps()) == 2  # the last one waits for the next event
        thread = threading.Thread(target=once_waited_for(seen.tracer.interrupted))
        thread.start()
        thread.join()
        assert len(seen.steps()) == 3
        step(model, optimizer)
        assert seen.tracer.training_thread.watched == threading.get_ident()
    beside.end()
    assert len(seen.steps()) == 4
    assert not seen.tracer.training_thread.several
    assert LEFT_OUT not in seen.blind()


def test_a_thread_that_evaluates_does_not_disturb() -> None:
    model = classifier()
    beside = Apart()

    def evaluate() -> None:
        with torch.no_grad():
            model(torch.randn(4, 6))

    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            step(model, optimizer)
            beside(evaluate)
    beside.end()
    assert len(seen.steps()) == 3
    assert LEFT_OUT not in seen.blind()


def test_a_thread_that_writes_checkpoints_is_heard_one_that_trains_is_not() -> None:
    model, other = classifier(), classifier()
    writing, training = Apart(), Apart()
    with watched() as seen:
        optimizer, theirs = sgd(model), sgd(other)
        step(model, optimizer)
        writing(lambda: torch.save(model.state_dict(), io.BytesIO()))
        training(lambda: step(other, theirs))
        training(lambda: torch.save(other.state_dict(), io.BytesIO()))
        step(model, optimizer)
    writing.end()
    training.end()
    assert len(seen.observed(CheckpointSaved)) == 1


def test_what_a_thread_logs_that_is_not_observed_belongs_to_no_step() -> None:
    model, other = classifier(), classifier()
    beside = Apart()
    with watched() as seen:
        optimizer, theirs = sgd(model), sgd(other)
        numbers = seen.tracer.job.process.numbers
        step(model, optimizer)
        numbers.add({"accuracy": 0.5})
        beside(lambda: step(other, theirs))
        beside(lambda: numbers.add({"accuracy": 0.1}))
        step(model, optimizer)
        log_number(seen.tracer.recorder, "accuracy", 0.6)
    beside.end()
    values = [s.value for r in seen.records for s in r.scalars if s.name == "accuracy"]
    assert 0.5 in values
    assert 0.1 not in values


class Deep(torch.autograd.Function):
    """A backward nested in backwards: beyond a depth of 60, PyTorch uses other threads."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, depth: int, tell: Callable[[], None]) -> torch.Tensor:
        ctx.depth, ctx.tell = depth, tell
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.tell()
        if ctx.depth:
            with torch.enable_grad():
                x = torch.ones(1, requires_grad=True)
                Deep.apply(x, ctx.depth - 1, ctx.tell).sum().backward()
        return gradient, None, None


def deep_backward(thread: TrainingThread) -> dict[int, set[bool]]:
    """Return, by thread, the answers given on it whether it is another one."""
    found: dict[int, set[bool]] = {}

    def tell() -> None:
        found.setdefault(threading.get_ident(), set()).add(thread.is_elsewhere())

    Deep.apply(torch.ones(1, requires_grad=True), 70, tell).sum().backward()
    assert len(found) > 1
    return found


def test_threads_of_pytorch_belong_to_the_thread_whose_backward_they_run() -> None:
    model, other = classifier(), classifier()
    beside = Apart()
    there: list[dict[int, set[bool]]] = []
    with watched() as seen:
        thread = seen.tracer.training_thread
        optimizer, theirs = sgd(model), sgd(other)
        step(model, optimizer)
        alone = deep_backward(thread)
        for _ in range(2):
            beside(lambda: step(other, theirs))
            step(model, optimizer)
        several = deep_backward(thread)
        beside(lambda: there.append(deep_backward(thread)))
    beside.end()
    assert set().union(*alone.values()) == {False}
    assert set().union(*several.values()) == {False}
    assert set().union(*there[0].values()) == {True}
