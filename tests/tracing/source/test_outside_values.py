"""Values from outside a function that its code reads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from mothtrap.tracing.source.outside_values import outside_values

beta = 0.5
rng = np.random.default_rng(0)
counted = 0


class Settings:
    rate: float

    def __init__(self) -> None:
        self.rate = 0.1


settings = Settings()


class Model:
    def __init__(self) -> None:
        self.scale, self.calls = 2.0, 0

    def step(self, x: float) -> float:
        self.calls += 1
        return self.helper(x) * beta

    def helper(self, x: float) -> float:
        return x * self.scale


class Layer:
    factor = 3.0

    def __init__(self) -> None:
        self.power = 2

    def call(self, x: float) -> float:
        return x**self.power

    __call__ = call


layer = Layer()


def values(function: Any, owner: object = None) -> dict[str, Any]:
    return {".".join(chain): value for chain, value in outside_values(function, owner).items()}


def test_global_names_and_names_of_inner_and_called_functions() -> None:
    def inner() -> float:
        return settings.rate

    def step(x: float) -> float:
        parts = [x * beta for _ in range(2)]
        return inner() + sum(parts)

    assert values(step) == {"beta": 0.5, "settings.rate": 0.1}


def test_closures_and_generators_of_random_numbers() -> None:
    weights = np.ones(3)

    def step() -> Any:
        return weights + np.random.normal() + random.random() + rng.normal()

    found = values(step)
    assert found["weights"] is weights
    assert found["rng"] is rng
    assert {"np.random.normal", "random.random"} < set(found)


def test_attributes_of_a_method_and_of_the_methods_that_it_calls() -> None:
    assert values(Model().step) == {"self.scale": 2.0, "beta": 0.5}


def test_an_object_that_is_called_is_read_too() -> None:
    def step(x: float) -> float:
        return layer(x)

    assert values(step)["self.power"] == 2


def test_a_method_of_an_argument_is_read_too() -> None:
    def step(model: Model, x: float) -> float:
        return model.helper(x)

    assert {".".join(chain) for chain in outside_values(step, None, [Model()])} == {"self.scale"}


def test_names_that_the_function_sets_itself_are_left_out() -> None:
    def step() -> None:
        global counted
        counted += 1

    assert not values(step)


def test_an_argument_that_an_inner_function_shares_is_no_global_name() -> None:
    def step(beta: float) -> float:
        def inner() -> float:
            return beta

        return inner() + beta

    assert not values(step)
