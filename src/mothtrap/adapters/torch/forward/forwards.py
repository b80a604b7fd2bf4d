"""Forwards of modules: roots, modes, activations, the latest outputs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.comparing_runs.perturbing import Perturbation
from mothtrap.adapters.torch.data.inputs import InputObserver
from mothtrap.adapters.torch.forward.bootstraps import BootstrapObserver
from mothtrap.adapters.torch.forward.calls import CallCapture
from mothtrap.adapters.torch.forward.compilations import CompilationObserver
from mothtrap.adapters.torch.forward.evaluated_loss_scalars import EvaluatedLossScalars
from mothtrap.adapters.torch.forward.evaluations import EvaluationObserver
from mothtrap.adapters.torch.forward.fast_path_outputs import FastPathOutputs
from mothtrap.adapters.torch.forward.modes import ModeObserver
from mothtrap.adapters.torch.forward.purposes import ForwardPurpose
from mothtrap.adapters.torch.job import checkpointing
from mothtrap.adapters.torch.job.devices import use_devices
from mothtrap.adapters.torch.job.forward_uses import Use
from mothtrap.adapters.torch.job.naming import Root, is_loss
from mothtrap.adapters.torch.job.nested import tensors_in
from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs, nodes_made
from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.adapters.torch.layers.half_precision import HalfPrecisionObserver
from mothtrap.adapters.torch.layers.looks import ForwardLooks
from mothtrap.adapters.torch.losses import loss_arguments, margins
from mothtrap.adapters.torch.losses.divergences import DivergenceObserver
from mothtrap.adapters.torch.losses.loss_arguments import LossArgumentsObserver
from mothtrap.adapters.torch.losses.loss_calls import inputs_of
from mothtrap.adapters.torch.losses.loss_tensors import LossTensors
from mothtrap.adapters.torch.losses.margins import MarginObserver
from mothtrap.adapters.torch.optimization.reach import ReachObserver
from mothtrap.adapters.torch.recording.attributes import Attributes
from mothtrap.adapters.torch.recording.recording import Recording
from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects
from mothtrap.capture.grouper import RootCalled
from mothtrap.core.steps import Mode, StepKey
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward._passage import Passage
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver


Hook = Callable[[nn.Module, Any, Any], None]
NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


@uncompiled
class ForwardObserver:
    """Called before and after every module's forward, at any depth.

    Attributes:
        calls: receives captured inputs and outputs.
        loss_tensors: receives captured losses.
        evaluations: collects the events of an evaluation.
        loss_trained: receives the loss of a training step, for comparison with evaluation losses.
        modes: the modes in which modules are trained.
        bootstraps: forwards from which targets are computed.
        divergences: reads the arguments of `kl_div`.
        margins: observer of losses with a margin.
        compilations: compiled models and functions.
        reach: modules that no backward pass reaches.
        narrow: observer of outputs and gradients in half precision.
        looks: occasional inspections of whole forwards.
        held: outputs of the latest train forward.
        inputs: observer of model inputs and of loaders.
        recording: recorder of the inputs of each step.
        attributes: module attributes, as they were before the forwards of a step.
        recomputes: a module ran inside a backward: checkpointing is in use.
        roots_called: number of root forward passes so far.
        left: called when a forward pass has returned, with the module and its output; None if it
            raised an exception.
        loss_called: called after a framework loss function returns, with its name, its result and
            its arguments.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        recorder = job.recorder
        self._captures, self._depths = recorder.captures, recorder.depths
        self._running: list[int] = []
        self._rootless: ByIdentity[nn.Module, bool] = ByIdentity()
        self._in_root = self._root_owned = self._is_quiet = False
        self._narrow_looks = self._reach_looks = False
        self._loss_output: tuple[weakref.ref[torch.Tensor], str | None] | None = None
        self._trains, self._asked = True, job.asked_mode
        self._use: Use | None = None
        self._detached: tuple[weakref.ref[torch.Tensor], torch.Tensor] | None = None
        self.calls = CallCapture(job)
        self.loss_tensors = LossTensors(job)
        self.divergences, self.margins = DivergenceObserver(job), MarginObserver(job)
        self.loss_arguments = LossArgumentsObserver(job)
        self.bootstraps = BootstrapObserver(job)
        self.evaluations = EvaluationObserver(job, self.bootstraps.cut)
        self.evaluations.losses.arguments = self.loss_arguments
        self.loss_trained: Callable[[str, float], None] = self.evaluations.losses.trained
        self.evaluated_losses = EvaluatedLossScalars(job, self.evaluations, self.loss_tensors)
        self.modes = ModeObserver(job)
        self.compilations = CompilationObserver(job, self._returned_in_graph)
        self.reach = ReachObserver(job, optimizers)
        self.narrow = HalfPrecisionObserver(job, optimizers)
        self.retained = RetainedOutputs()
        self._fast_outputs = FastPathOutputs(job, self.calls, self.retained, self._returned)
        self._thread = thread = job.training_thread
        self.inputs = InputObserver(job, lambda: thread.watched)
        self._perturbation = Perturbation() if job.config.perturb else None
        self.looks = ForwardLooks(job, self.inputs.loaders.provenance)
        self.recording = Recording(job, lambda: thread.watched)
        self.attributes = Attributes(TrackedObjects(job.book, optimizers))
        self.recomputes = False
        self.roots_called = 0
        self._was_light = False
        self._latest_root: tuple[weakref.ref[nn.Module], Root] | None = None
        self.left = job.contained(self._left)
        self.loss_called = job.contained(self._loss_function_called)
        self.new_step()

    def new_step(self) -> None:
        """Determine the captures of the step that begins."""
        if self.compilations.functions:
            self.compilations.step_closed(self.roots_called)
        self.attributes.is_read = False
        if not (self._job.light and self._was_light):  # otherwise the same data is due
            self.calls.new_step()
            self._look_up_calls()
        self._was_light = self._job.light

    def passed_unobserved(self) -> None:
        """Like `new_step`, if the previous step was not observed."""
        self.observe_all()
        self.inputs.drawn.passed_unobserved()
        self.new_step()

    def _look_up_calls(self) -> None:
        self._takes_inputs, self._takes_outputs = self.calls.takes_inputs, self.calls.takes_outputs

    def thread_moved(self) -> None:
        """Discard the current forward pass, because another thread is observed now."""
        self._running.clear()
        self._fast_outputs.close()

    def hooks(self) -> tuple[Hook, Hook]:
        """Return `entered` (with keywords) and `left` as hooks that disappear when compiled."""
        # Bound here, because a global that a hook looks up would become a guard of compiled code.
        is_compiling = torch.compiler.is_compiling

        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            if not is_compiling():
                self.entered(module, args, kwargs)

        def after(module: nn.Module, _: Any, output: Any) -> None:
            if not is_compiling() and self._is_observed():
                self.left(module, output)

        return before, after

    def entered(
        self, module: nn.Module, args: Any, kwargs: Mapping[str, Any] = NO_KEYWORDS
    ) -> bool:
        """Handle the start of a forward pass; return whether its end must be reported."""
        if not self._is_observed() or (self._running and self.compilations.made(module)):
            return False
        if id(module) in self._running:  # interrupted: its end was not observed
            while self._running.pop() != id(module):
                pass
        if not self._running:
            self._job.contain(self._root_called, module, args, kwargs)
            if self._job.sampling.on:
                return False
        if self._takes_inputs and self._in_root:
            self._job.contain(self._take_inputs, module, args, kwargs)
        if self._reach_looks and self._in_root:
            part = self._job.contain_part, "reach of gradients"
            self._job.contain(*part, self.reach.entered, module, args)
        if self.looks.active and self._in_root:
            self._job.contain(self._look, self.looks.entered, module, args, kwargs)
        self._running.append(id(module))
        return True

    def _left(self, module: nn.Module, output: Any) -> None:
        self._fast_outputs.close()
        running, number = self._running, id(module)
        if running and running[-1] == number:
            running.pop()
        elif number in running:
            while running.pop() != number:
                pass
        else:
            return
        if output is not None or sys.exc_info()[1] is None:
            plain = self._is_quiet and running and type(output) is torch.Tensor
            (self._passed if plain else self._returned)(module, output)

    def _is_observed(self) -> bool:
        thread = self._thread
        if not self._job.job.live or (get_ident() != thread.watched and not thread.follows()):
            return False
        if torch._C._current_graph_task_id() != -1:  # private API, covered by a test
            self.recomputes = True
            return False
        return torch._C._get_tracing_state() is None

    def _passed(self, module: nn.Module, output: torch.Tensor) -> None:
        """Handle the output of a model part that is one tensor whose values are not requested."""
        if self._trains and not self._fast_outputs.is_handed_on(module, output):
            self.retained.add(module, output)
        self._fast_outputs.noticed(module, output)

    def fast_path(self) -> Passage | None:
        """Return the fast path for calls that are not inspected; None if there is none."""
        return self._fast_outputs.build()

    def observe_all(self) -> None:
        """Close the fast path for good, and process its pending data."""
        self._job.contain(self.close_path)

    def close_path(self) -> None:
        """Like `observe_all`, for use inside a contained hook."""
        if get_ident() == self._thread.watched:
            self._fast_outputs.close()

    def _returned(self, module: nn.Module, output: Any) -> None:
        tensors = [output] if isinstance(output, torch.Tensor) else list(tensors_in(output))
        single = tensors[0] if len(tensors) == 1 else None
        if self._narrow_looks and self._trains and self._in_root:
            self._job.contain_part("half precision", self.narrow.returned, module, tensors)
        if self._reach_looks and self._in_root:
            self._job.contain_part(
                "reach of gradients", self.reach.returned, module, tensors, self._trains
            )
        if single is None or not self._fast_outputs.is_handed_on(module, single):
            if self._trains:
                for tensor in tensors:
                    self.retained.add(module, tensor)
            if self._takes_outputs and self._in_root:
                before = self._fast_outputs.before_it
                layer = before() if before is not None else None
                self._job.contain_part("activations", self.calls.left, module, output, layer)
        if self.looks.active and self._in_root:
            self._look(self.looks.left, module, output)
        self._fast_outputs.noticed(module, single)
        if not self._running:
            self._root_returned(module, tensors, output)

    def _returned_in_graph(self, module: nn.Module, output: torch.Tensor) -> None:
        """Handle a tensor returned, without its graph, by a part inside compiled code."""
        takes = self._takes_outputs and self._in_root and self._is_observed()
        if takes and not self.compilations.is_handed_on(module, output):
            self._job.contain_part("activations", self.calls.left, module, output, None)

    def _look(self, look: Callable[..., None], *about: Any) -> None:
        self._job.contain_part("inspection of layers", look, *about)

    def _take_inputs(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        outermost = not self._running
        self._job.contain_part("inputs", self.calls.entered, module, args, kwargs, outermost)

    def _root_called(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        self._fast_outputs.close()  # left over from an interrupted root
        self._in_root = self._is_quiet = False
        self._use = None
        asked = self._asked = self._job.job.process.asked_mode
        makes_graph = torch.is_grad_enabled() or checkpointing.in_first_run()
        self._trains = makes_graph if asked is None else asked is Mode.TRAIN
        latest = self._latest_root
        root = latest[1] if latest is not None and latest[0]() is module else self._root(module)
        if root is None:
            self._keep_loss_inputs(args, kwargs)
            if self._trains:
                recorded, name = self.recording.loss_called, type(module).__name__
                self._job.contain_part("snapshots", recorded, name, args, kwargs)
            return
        self._in_root = True
        if self.compilations.modules_changed:
            self.compilations.root_called()
        self._captures.begin_forward()
        hand_steps, grouper = self._job.hand_steps, self._job.grouper
        if hand_steps.glimpses or not self._job.light:
            self._job.contain_part("steps by hand", hand_steps.root_called, root, self._trains)
        owned = root.index in self._optimizers.owned or self._optimizers.owns_root(root)
        if grouper.between_steps or grouper.running:
            self._job.feed(RootCalled(root.label, owned))
        if self._job.sampling.begins(module, self._trains):
            return
        self._root_owned = owned
        light = self._job.light and self._trains
        self._was_light = light
        if not self._job.light:
            called = self.bootstraps.root_called
            self._job.contain_part("modes", called, module, args, owned, self._trains)
        if not light:
            self.reach.root_called()
            self.narrow.root_called()
        if owned:  # after the previous step was closed
            if self._perturbation is not None and self._trains:
                self._job.contain_part("perturbation", self._perturbation.called, module)
            if not light or self._depths.in_group:
                self._optimizers.distributed.root_called(module, root, args, kwargs)
            if asked is not Mode.PREDICT:
                self._job.contain_part(
                    "evaluations", self.evaluations.root_called, module, args, self._trains
                )
        elif not (self._trains or asked is Mode.PREDICT) and self.bootstraps.is_copy(module):
            self._job.contain_part("evaluations", self.evaluations.copy_called, module, args)
        if makes_graph and self.recording.active and not self.attributes.is_read:
            self.attributes.is_read = True
            self._job.contain_part("snapshots", self.attributes.read)
        given = module, args, kwargs
        frame = frames.user_frame() if makes_graph else None  # searched once, for both
        place = frame, frames.location(frame) if frame is not None else None
        if self._trains and asked is None:
            uses = self.evaluations.uses
            uses.called += 1
            searched = uses.called > 1 and uses.searches_light_steps
            if not light or searched or self.inputs.reads_light_steps:
                self._job.contain_part(
                    "evaluations", self._watch_use, module, args, owned, place[1]
                )
        self._job.contain_part(
            "snapshots", self.recording.forward_called, root.label, *given, makes_graph, *place
        )
        of_inputs = self.inputs.root_called
        self._job.contain_part("data", of_inputs, *given, self._trains, *place, self._use)
        self.retained.root_called(args, kwargs, keep=self._trains)
        if not light or self._takes_inputs or self._takes_outputs:
            self.calls.root_called(asked or (Mode.TRAIN if self._trains else Mode.EVAL))
            self._look_up_calls()
        self.roots_called += 1
        looking = False
        self._narrow_looks = self._reach_looks = False
        if not light:
            given = (*args, *kwargs.values())
            self._look(self.looks.root_called, root, given, owned and self._trains)
            self._narrow_looks, self._reach_looks = self.narrow.looks, self.reach.looks
            looking = self._narrow_looks or self._reach_looks or self.looks.active
        self._is_quiet = not (looking or self._takes_outputs)
        looked_into = looking or self._takes_inputs
        self._fast_outputs.root_called(module, trains=self._trains, looked_into=looked_into)

    def _watch_use(self, module: nn.Module, args: Any, owned: bool, place: str | None) -> None:
        self._use = self.evaluations.uses.began(module, args, owned, place)

    def _keep_loss_inputs(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Keep the inputs of a loss in an evaluation, where no graph contains the target."""
        if not self._trains:
            self.evaluated_losses.keep_inputs(args, kwargs)

    def _root(self, module: nn.Module) -> Root | None:
        if module in self._rootless:
            return None
        has_weights = next(module.parameters(), None) is not None
        root = self._job.book.root_of(module)
        if root is None and has_weights:
            root = self.add_root(self._job.book.top(module))
        if is_loss(module) and not has_weights:  # a model holds it that is not called as a module
            root = None
        if root is None:
            self._rootless[module] = True
        else:
            self._latest_root = weakref.ref(module), root
        return root

    def add_root(self, module: nn.Module) -> Root | None:
        """Name a tree of modules, and report which parts cannot be observed."""
        root = self._job.book.add_root(module)
        if root is not None:
            use_devices(self._job.job)
            self.compilations.tell_hidden(root)
        return root

    def _root_returned(
        self, module: nn.Module, tensors: Sequence[torch.Tensor], output: Any
    ) -> None:
        asked, step = self._asked, self._job.grouper.step
        has_graph = False
        for tensor in tensors:
            has_graph = has_graph or tensor.requires_grad
        trains = has_graph if asked is None else asked is Mode.TRAIN
        if has_graph and self._use is not None:
            self._job.contain_part("evaluations", self._use.returned, tensors)
        if not self._in_root:
            given = self.evaluated_losses.take_inputs()
            if is_loss(module) and len(tensors) == 1 and tensors[0].numel() == 1:
                self._loss_returned(module, tensors[0], trains, *given)
            return
        if self._fast_outputs.rewritten.learning is not None:
            self._fast_outputs.rewritten.root_returned()
        self.retained.ended = nodes_made()
        if self.calls.takes_results:
            self._job.contain_part("outputs", self.calls.returned, module, output)
        if self.looks.active:
            self._look(self.looks.root_returned, output)
        if self._root_owned and self.evaluations.rows.reads:
            self.evaluations.rows.returned(tensors)
        in_segment = self._trains and not torch.is_grad_enabled()
        if self._root_owned and trains:
            self._job.contain_part("modes", self.modes.trained, module, self.retained, self._use)
        evaluates = self.evaluations.in_doubt or not self._trains
        if self._root_owned and evaluates and asked is not Mode.PREDICT:
            self.evaluations.root_returned(module, tensors)
        seems = asked is None and (in_segment or (not tensors and torch.is_grad_enabled()))
        if trains or seems:
            purpose = None
            if has_graph and asked is None and self._captures.forward.is_any:
                next_key = self.evaluated_losses.next_key
                purpose = ForwardPurpose(module, tensors, step, next_key)
            self._captures.commit_forward(StepKey(step=step, mode_step=step), purpose)
            return
        self._captures.commit_forward(self.evaluated_losses.next_key(asked or Mode.EVAL, step))
        if asked is not Mode.PREDICT:
            self.evaluated_losses.model_returned(output)

    def _loss_function_called(
        self, name: str, result: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Handle the return of a loss function; under no_grad, no graph contains it."""
        asked = self._job.job.process.asked_mode
        if asked is Mode.PREDICT:
            return
        if self.evaluations.rows.reads and self._is_observed():
            self._job.contain_part("evaluations", self.evaluations.rows.lost, args, result)
        if name in margins.FUNCTIONS:
            if result.requires_grad and asked is not Mode.EVAL and self._is_observed():
                called = name, result, args, kwargs
                self._job.contain_part("loss calls", self.margins.called, *called)
            return
        if asked is Mode.EVAL:
            result, args = self._without_graph(result), [_without_graph(each) for each in args]
        if result.requires_grad and self._is_observed():
            contain_part = self._job.contain_part
            if not self._job.light:
                contain_part("digests", self.inputs.digests.loss_called, args, kwargs)
            if name in loss_arguments.OBSERVED:
                inputs = inputs_of(name, args, kwargs)
                contain_part("loss calls", self.loss_arguments.called, inputs)
                if name == "kl_div":
                    contain_part("loss calls", self.divergences.called, inputs)
            if self._trains and not (self._running and self._in_root):
                contain_part("snapshots", self.recording.loss_called, name, args, kwargs)
        # A loss with a graph is inspected in the backward pass.
        evaluations = self.evaluations
        takes_graphs = evaluations.in_doubt or (
            evaluations.uses.latest is not None and evaluations.uses.expects
        )
        if (not result.requires_grad or takes_graphs) and self._is_observed():
            self._loss_called(name, result, args, kwargs)

    def _loss_called(
        self, name: str, result: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        runs = bool(self._running)
        inside = {"in_loss": runs and not self._in_root, "in_model": runs and self._in_root}
        self.evaluated_losses.called(name, result, args, kwargs, **inside)

    def _loss_returned(
        self,
        module: nn.Module,
        value: torch.Tensor,
        trains: bool,
        args: Any,
        kwargs: Mapping[str, Any],
    ) -> None:
        if self._asked is Mode.PREDICT:
            return
        if trains:
            self._loss_output = (OwnRef(value), frames.user_location())
            self._job.contain_part("loss calls", self.margins.returned, module, value)
        else:
            self.evaluated_losses.returned(module, self._without_graph(value), args, kwargs)

    def _without_graph(self, value: torch.Tensor) -> torch.Tensor:
        """Return a loss without its graph; always the same object for the same loss."""
        if not value.requires_grad:
            return value
        if self._detached is None or self._detached[0]() is not value:
            self._detached = OwnRef(value), value.detach()
        return self._detached[1]

    def loss_location(self, root: torch.Tensor) -> str | None:
        """Return the location of the loss module whose output is the root of a backward pass."""
        if self._loss_output is not None and self._loss_output[0]() is root:
            return self._loss_output[1]
        return None


def _without_graph(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value
