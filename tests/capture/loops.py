"""Training loops of many shapes, as events, and the steps that they consist of."""

from __future__ import annotations

from collections.abc import Iterable

from tests.capture.events import (
    Events,
    Loop,
    Step,
    backward,
    forward,
    iteration,
    joined,
    step,
    zero,
)

from mothtrap.capture.grouper import Ended, StepBegan, StepSkipped


def critic(real: int, fake: int) -> Events:
    return joined(
        zero("Adam#1"),
        forward("Critic"),
        backward("real", real),
        forward("Generator"),
        forward("Critic"),
        backward("fake", fake),
        step("Adam#1"),
    )


def generator(loss: int) -> Events:
    return joined(
        zero("Adam"),
        forward("Generator"),
        forward("Critic"),
        backward("fool", loss),
        step("Adam"),
    )


def critic_step(real: int, fake: int) -> Step:
    return Step(("Adam#1",), {"real Adam#1": (real,), "fake Adam#1": (fake,)})


def generator_step(loss: int) -> Step:
    return Step(("Adam",), {"fool Adam": (loss,)})


def evaluations(keys: Iterable[int], optimizer: str, site: str = "closure") -> Events:
    """A closure that is called several times."""
    return joined(*(joined(zero(optimizer), forward(), backward(site, key)) for key in keys))


def in_backward(loss: int) -> Events:
    """Four parameters, each with an optimizer that steps as soon as its gradient arrives."""
    names = ("SGD", "SGD#1", "SGD#2", "SGD#3")
    return backward("loss", loss, joined(*(joined(step(n), zero(n)) for n in names)))


END: Events = [Ended()]
IN_BACKWARD = ("SGD", "SGD#1", "SGD#2", "SGD#3")

ONE_OPTIMIZER = [
    Loop(
        "plain",
        joined(iteration(1), iteration(2), iteration(3), END),
        [Step(("Adam",), {"loss Adam": (k,)}) for k in (1, 2, 3)],
    ),
    Loop(
        "the next forward ends a step, before any backward",
        joined(iteration(1), forward()),
        [Step(("Adam",), {"loss Adam": (1,)})],
    ),
    Loop("a step stands open until something ends it", iteration(1), []),
    Loop(
        "accumulation over four micro-batches",
        joined(*(joined(forward(), backward("loss", k)) for k in (1, 2, 3, 4)), step("Adam"), END),
        [Step(("Adam",), {"loss Adam": (1, 2, 3, 4)}, micro_batches=4)],
    ),
    Loop(
        "several losses, each with a backward of its own, before one step",
        joined(backward("main", 1), backward("auxiliary", 2), step("Adam"), END),
        [Step(("Adam",), {"main Adam": (1,), "auxiliary Adam": (2,)})],
    ),
    Loop(
        "PPO: epochs over a rollout that was made with forwards alone",
        joined(
            forward("Policy"),
            forward("Value"),
            forward("Policy"),
            *(joined(forward("Value"), iteration(k, "ppo")) for k in (1, 2, 3, 4)),
            forward("Policy"),
        ),
        [Step(("Adam",), {"ppo Adam": (k,)}) for k in (1, 2, 3, 4)],
    ),
    Loop(
        "evaluation between steps",
        joined(iteration(1), forward(), forward(), forward(), iteration(2), END),
        [Step(("Adam",), {"loss Adam": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "a forward of a model that is not optimized ends nothing",
        joined(backward("loss", 1), step("Muon"), forward("Teacher", owned=False), step("Adam"))
        + END,
        [Step(("Muon", "Adam"), {"loss Adam+Muon": (1,)})],
    ),
    Loop(
        "gradients zeroed between backward and step: the loss is not of the step",
        joined(backward("warm", 1), zero("Adam"), backward("loss", 2), step("Adam"), END),
        [Step(("Adam",), {"loss Adam": (2,)})],
    ),
    Loop(
        "gradients zeroed just before a step: the loss is that of the step all the same",
        joined(backward("loss", 1), zero("Adam"), step("Adam"), iteration(2), END),
        [Step(("Adam",), {"loss Adam": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "gradients of several backwards zeroed just before a step: those since the zeroing before",
        joined(backward("warm", 1), zero("Adam"))
        + joined(*(backward("loss", k) for k in (2, 3)), zero("Adam"), zero("Adam"), step("Adam"))
        + END,
        [Step(("Adam",), {"loss Adam": (2, 3)}, micro_batches=2)],
    ),
    Loop(
        "a batch is left out, and the next step has a closure",
        joined(backward("loss", 1), zero("LBFGS"))
        + joined(step("LBFGS", evaluations([2, 3], "LBFGS")), END),
        [Step(("LBFGS",), {"closure LBFGS": (2,)})],
    ),
    Loop(
        "a backward from no single number",
        joined(backward("outputs"), backward("outputs"), step("Adam"), END),
        [Step(("Adam",), micro_batches=2)],
    ),
    Loop(
        "a backward that raises is caught, and the batch is left out",
        joined(backward("loss", 1), zero("Adam"), iteration(2), END),
        [Step(("Adam",), {"loss Adam": (2,)})],
    ),
    Loop(
        "a step that raises is caught and tried again: one step",
        joined(forward(), backward("loss", 1), [StepBegan("Adam")], iteration(2), iteration(3))
        + END,
        [Step(("Adam",), {"loss Adam": (1,)}), Step(("Adam",), {"loss Adam": (3,)})],
    ),
    Loop(
        "reentrant checkpointing: a backward inside a backward",
        joined(
            forward(),
            backward("loss", 1, joined(forward("Block"), backward("checkpoint", 2))),
            step("Adam"),
            backward("loss", 3, joined(forward("Block"), backward("checkpoint", 4))),
            step("Adam"),
            END,
        ),
        [Step(("Adam",), {"loss Adam": (k,)}) for k in (1, 3)],
    ),
    Loop(
        "the process ends inside a step",
        joined(iteration(1), forward(), backward("loss", 2), [StepBegan("Adam")], END),
        [Step(("Adam",), {"loss Adam": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "the process ends between backward and step",
        joined(iteration(1), forward(), backward("loss", 2), END),
        [Step(("Adam",), {"loss Adam": (1,)})],
    ),
    Loop("gradients for a picture, never a step", joined(*[backward("saliency", 1)] * 3, END), []),
    Loop("nothing happens", END, []),
]

SEVERAL_OPTIMIZERS = [
    Loop(
        "GAN",
        joined(critic(1, 2), generator(3), critic(4, 5), generator(6), END),
        [critic_step(1, 2), generator_step(3), critic_step(4, 5), generator_step(6)],
    ),
    Loop(
        "WGAN with five critic steps for one of the generator",
        joined(*(critic(k, k + 100) for k in range(1, 6)), generator(6), critic(7, 107), END),
        [*(critic_step(k, k + 100) for k in range(1, 6)), generator_step(6), critic_step(7, 107)],
    ),
    Loop(
        "GAN that zeroes the other's gradients between backward and step",
        joined(
            backward("fool", 1),
            zero("Adam#1"),
            step("Adam"),
            zero("Adam"),
            backward("real", 2),
            zero("Adam"),
            step("Adam#1"),
            END,
        ),
        [Step(("Adam",), {"fool Adam": (1,)}), Step(("Adam#1",), {"real Adam#1": (2,)})],
    ),
    Loop(
        "Muon and AdamW after one backward",
        joined(*(joined(backward("loss", k), step("Muon"), step("AdamW")) for k in (1, 2)), END),
        [Step(("Muon", "AdamW"), {"loss AdamW+Muon": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "MAML: gradients taken inside without a backward, one outer step",
        joined(
            *(
                joined(*[forward()] * 6, zero("Adam"), backward("outer", k), step("Adam"))
                for k in (1, 2)
            ),
            END,
        ),
        [Step(("Adam",), {"outer Adam": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "Reptile: inner steps; the outer one comes with the last of them",
        joined(*(iteration(k, "inner", "SGD") for k in (1, 2, 3)), step("Adam"), END),
        [
            Step(("SGD",), {"inner SGD": (1,)}),
            Step(("SGD",), {"inner SGD": (2,)}),
            Step(("SGD", "Adam"), {"inner Adam+SGD": (3,)}),
        ],
    ),
    Loop(
        "Reptile with an evaluation before the outer step",
        joined(iteration(1, "inner", "SGD"), forward(), step("Adam"), END),
        [Step(("SGD",), {"inner SGD": (1,)}), Step(("Adam",), micro_batches=0)],
    ),
    Loop(
        "four optimizers with one name and a number are named as a family",
        joined(backward("loss", 1), *(step(name) for name in IN_BACKWARD), END),
        [Step(IN_BACKWARD, {"loss SGD*": (1,)})],
    ),
]

CLOSURES_AND_NESTING = [
    Loop(
        "LBFGS: of twenty evaluations the first is the loss",
        joined(
            step("LBFGS", evaluations(range(1, 21), "LBFGS")),
            step("LBFGS", evaluations(range(21, 41), "LBFGS")),
            END,
        ),
        [Step(("LBFGS",), {"closure LBFGS": (k,)}) for k in (1, 21)],
    ),
    Loop(
        "LBFGS ended by nothing but its own next step",
        joined(*(step("LBFGS", evaluations([k, k + 10], "LBFGS")) for k in (1, 2, 3))),
        [Step(("LBFGS",), {"closure LBFGS": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "two models, each with a closure of its own",
        joined(
            *(
                joined(
                    step("LBFGS", evaluations([k, k + 1], "LBFGS", "first")),
                    step("LBFGS#1", evaluations([k + 2, k + 3], "LBFGS#1", "second")),
                )
                for k in (10, 20)
            ),
            END,
        ),
        [
            Step(("LBFGS",), {"first LBFGS": (10,)}),
            Step(("LBFGS#1",), {"second LBFGS#1": (12,)}),
            Step(("LBFGS",), {"first LBFGS": (20,)}),
            Step(("LBFGS#1",), {"second LBFGS#1": (22,)}),
        ],
    ),
    Loop(
        "a plain step, then one with a closure of the same optimizer",
        joined(iteration(1), step("Adam", evaluations([2, 3], "Adam")), step("SGD"), END),
        [
            Step(("Adam",), {"loss Adam": (1,)}),
            Step(("Adam", "SGD"), {"closure Adam+SGD": (2,)}),
        ],
    ),
    Loop(
        "accumulation whose last micro-batch is a closure's",
        joined(
            *(
                joined(
                    *(joined(forward(), backward("loss", k + n)) for n in range(3)),
                    step("SGD", joined(forward(), backward("loss", k + 3, accumulates=True))),
                    zero("SGD"),
                )
                for k in (10, 20)
            ),
            END,
        ),
        [Step(("SGD",), {"loss SGD": (k, k + 1, k + 2, k + 3)}, micro_batches=4) for k in (10, 20)],
    ),
    Loop(
        "only the first evaluation of a closure adds to what was accumulated",
        joined(
            backward("loss", 1),
            step(
                "LBFGS",
                joined(backward("loss", 2, accumulates=True), evaluations([3, 4], "LBFGS")),
            ),
            END,
        ),
        [Step(("LBFGS",), {"loss LBFGS": (1, 2)}, micro_batches=2)],
    ),
    Loop(
        "SAM that evaluates everything in its closure",
        joined(
            *(step("SAM", evaluations([k, k + 10], "SAM") + step("SGD")) for k in (1, 2)),
            END,
        ),
        [Step(("SAM", "SGD"), {"closure SAM+SGD": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "SAM that inherits its base optimizer's step",
        joined(
            *(step("SAM", evaluations([k, k + 10], "SAM") + step("SAM")) for k in (1, 2)),
            END,
        ),
        [Step(("SAM",), {"closure SAM": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "SAM with closure: the base optimizer steps inside, the second loss is not counted",
        joined(
            *(
                joined(
                    forward(),
                    backward("loss", k),
                    step("SAM", evaluations([k + 10], "SAM") + step("SGD")),
                    zero("SAM"),
                )
                for k in (1, 2)
            ),
            END,
        ),
        [Step(("SAM", "SGD"), {"loss SAM+SGD": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "SAM without closure: two backwards, the base optimizer steps after the second",
        joined(
            *(
                joined(backward("first", k), zero("SAM"), backward("second", k + 10), step("SGD"))
                for k in (1, 2)
            ),
            END,
        ),
        [Step(("SGD",), {"first SGD": (k,), "second SGD": (k + 10,)}) for k in (1, 2)],
    ),
    Loop(
        "Lookahead: the inner optimizer steps inside",
        joined(*(joined(backward("loss", k), step("Lookahead", step("SGD"))) for k in (1, 2)), END),
        [Step(("Lookahead", "SGD"), {"loss Lookahead+SGD": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "an optimizer whose step calls its parent's, which is hooked too",
        joined(*(joined(backward("loss", k), step("Mine", step("Mine"))) for k in (1, 2)), END),
        [Step(("Mine",), {"loss Mine": (k,)}) for k in (1, 2)],
    ),
    Loop(
        "optimizer in backward: one optimizer per parameter",
        joined(forward(), in_backward(1), forward(), in_backward(2), END),
        [Step(IN_BACKWARD, {"loss SGD*": (k,)}) for k in (1, 2)],
    ),
]

SKIPPED = [
    Loop(
        "a scaler skips every optimizer",
        joined(backward("loss", 1), [StepSkipped("Adam")], iteration(2), END),
        [Step(("Adam",), {"loss Adam": (1,)}, skipped=True), Step(("Adam",), {"loss Adam": (2,)})],
    ),
    Loop(
        "a scaler skips one of two optimizers",
        joined(backward("loss", 1), [StepSkipped("Adam")], step("SGD"), END),
        [Step(("SGD", "Adam"), {"loss Adam+SGD": (1,)})],
    ),
    Loop(
        "a scaler skips both of two optimizers",
        joined(backward("loss", 1), [StepSkipped("Adam"), StepSkipped("SGD")], END),
        [Step(("Adam", "SGD"), {"loss Adam+SGD": (1,)}, skipped=True)],
    ),
]

LOOPS = [*ONE_OPTIMIZER, *SEVERAL_OPTIMIZERS, *CLOSURES_AND_NESTING, *SKIPPED]
