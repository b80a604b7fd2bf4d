"""Collections of a Keras training contain their tensors: in `fit`, in loops, and in evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import mothtrap  # noqa: E402
from mothtrap import Collection, Run, Schedule  # noqa: E402
from mothtrap.core.facts.captures import Blind  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

STEPS, ROWS = 4, 8
X = np.random.default_rng(0).random((STEPS * ROWS, 6)).astype("float32")
Y = (np.arange(STEPS * ROWS) % 3).astype("int64")


def network(*, eager: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    inner = [keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential([keras.Input((6,)), *inner], name="net")
    loss = "sparse_categorical_crossentropy"
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], run_eagerly=eager)
    return model


def fit(model: Any) -> None:
    model.fit(X, Y, batch_size=ROWS, shuffle=False, verbose=0)


def recorded(
    folder: Path, collections: dict[str, Collection], model: Any, *actions: Any, **more: Any
) -> Run:
    settings: dict[str, Any] = {"overhead": 0, "on_full": "block", "collections": collections}
    with mothtrap.watch(model, runs_dir=str(folder), name="run", **settings, **more):
        for act in actions or (fit,):
            act(model)
    return mothtrap.open_run(folder / "run")


def names(run: Run, kind: str) -> list[str]:
    return [tensor.name for tensor in run.tensors(kind=kind)]


@pytest.mark.parametrize("eager", [False, True])
def test_tensors_of_the_model(tmp_path: Path, *, eager: bool) -> None:
    asked = Collection(raw=True, every=2)
    collections = dict.fromkeys(("inputs", "outputs", "labels", "losses"), asked)
    run = recorded(tmp_path, collections, network(eager=eager))
    assert names(run, "input") == names(run, "output") == names(run, "label") == ["net"]
    of_step = slice(2 * ROWS, 3 * ROWS)
    assert run.tensor("input:net").at(2).tobytes() == X[of_step].tobytes()
    assert run.tensor("label:net").at(2).ravel().tolist() == Y[of_step].tolist()
    output = run.tensor("output:net").at(2)
    assert output.shape == (ROWS, 3)
    np.testing.assert_allclose(output.sum(axis=1), 1, rtol=1e-5)
    [loss] = run.tensors(kind="loss")
    of_labels = output[np.arange(ROWS), Y[of_step]]
    assert loss.at(2) == pytest.approx(-np.log(of_labels).mean(), rel=1e-5)


def test_inputs_of_layers(tmp_path: Path) -> None:
    asked = Collection(tensors=("input:*dense*",), raw=True, every=2)
    run = recorded(tmp_path, {"layers": asked}, network())
    first, second = run.tensors(kind="input")
    assert first.at(2).tobytes() == X[2 * ROWS : 3 * ROWS].tobytes()
    assert second.shape == (ROWS, 5)


def test_weights_of_the_first_step_are_those_before_it(tmp_path: Path) -> None:
    model = network()
    model.layers[0].bias.assign(np.arange(5))
    before = [weight.tobytes() for weight in model.get_weights()]
    asked = Collection(raw=True, steps=(0,))
    run = recorded(tmp_path, {"weights": asked, "biases": asked}, model)
    tensors = [*run.tensors(kind="weight"), *run.tensors(kind="bias")]
    assert sorted(tensor.at(0).tobytes() for tensor in tensors) == sorted(before)


def test_variables_of_the_optimizer(tmp_path: Path) -> None:
    model = network()
    run = recorded(tmp_path, {"optimizer_state": Collection(raw=True, steps=(STEPS - 1,))}, model)
    tensors = run.tensors(kind="optimizer_state")
    assert len(tensors) == 8  # two Adam slots for each of the four weights
    held = {str(variable.path): variable.numpy() for variable in model.optimizer.variables}
    for tensor in tensors:
        assert tensor.at(STEPS - 1).tobytes() == held[tensor.name].tobytes()


def test_metrics_of_training_and_the_loss_of_validation(tmp_path: Path) -> None:
    def validated(model: Any) -> None:
        model.fit(X, Y, batch_size=ROWS, verbose=0, validation_data=(X, Y))

    run = recorded(tmp_path, {}, network(), validated)
    [accuracy] = run.scalars("accuracy", mode="train")
    assert len(accuracy.values_S) == STEPS
    [loss] = run.scalars("loss", mode="eval")
    assert len(loss.values_S) == 1


def evaluate(model: Any) -> None:
    model.evaluate(X, Y, batch_size=ROWS, verbose=0)


def by_hand(model: Any) -> None:
    for first in range(0, len(X), ROWS):
        model(X[first : first + ROWS], training=False)


@pytest.mark.parametrize("evaluates", [evaluate, by_hand])
def test_tensors_of_evaluations(tmp_path: Path, evaluates: Any) -> None:
    weights = Collection(raw=True, every=2, eval=Schedule(every=3))
    layers = Collection(raw=True, every=2, eval=Schedule(every=2))
    state = Collection(raw=True, every=2)
    asked = {"weights": weights, "activations": layers, "optimizer_state": state}
    run = recorded(tmp_path, asked, network(), fit, evaluates)
    for kind, number in (("weight", 2), ("activation", 2), ("optimizer_state", 0)):
        for tensor in run.tensors(kind=kind):
            assert [key.step for key in tensor.raw_keys("train")] == [0, 2]
            assert len(tensor.raw_keys("eval")) == number, tensor


def test_tensors_of_predictions(tmp_path: Path) -> None:
    def predict(model: Any) -> None:
        model.predict(X, batch_size=ROWS, verbose=0)

    asked = Collection(raw=True, modes=("predict",))
    model = network()
    run = recorded(tmp_path, {"outputs": asked}, model, fit, predict)
    keys = run.tensor("output:net").raw_keys("predict")
    assert len(keys) == STEPS
    assert not run.tensor("output:net").raw_keys("train")


def test_logged_tensors_of_any_type(tmp_path: Path) -> None:
    model = network()
    with mothtrap.watch(model, runs_dir=str(tmp_path), name="run") as watch:
        watch.log_tensor("constant", tf.constant([0, 1, 2]))
        watch.log_tensor("complex", tf.Variable([5 + 4j]))
        watch.log_tensor("kernel", model.layers[0].kernel)
        kernel = model.layers[0].kernel.numpy()
        fit(model)
    run = mothtrap.open_run(tmp_path / "run")
    assert run.tensor("metric:constant").at(0).tolist() == [0, 1, 2]
    assert run.tensor("metric:complex").at(0).tolist() == [5 + 4j]
    assert run.tensor("metric:kernel").at(0).tobytes() == kernel.tobytes()


def test_two_gradients_of_one_loss_are_one_series(tmp_path: Path) -> None:
    def train(model: Any) -> None:
        loss_of = keras.losses.SparseCategoricalCrossentropy()
        for _ in range(STEPS):
            with tf.GradientTape(persistent=True) as tape:
                loss = loss_of(Y, model(X, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            tape.gradient(loss, model.trainable_variables[:2])
            model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    run = recorded(tmp_path, {"labels": Collection(raw=True)}, network(), train)
    [series] = run.scalars("loss")
    assert len(series.values_S) == STEPS
    [label] = run.tensors(kind="label")
    assert label.at(0).tolist() == Y.tolist()


def test_tensors_that_keras_does_not_give_are_reported(tmp_path: Path) -> None:
    asked = {"own": Collection(tensors=("buffers", "weights"), raw=True)}
    run = recorded(tmp_path, asked, network())
    [blind] = [fact for fact in run.observations(Blind) if fact.what == "collection own"]
    assert "no buffers" in blind.reason


def test_weights_are_the_same_bits(tmp_path: Path) -> None:
    plain, watched = network(), network()
    for act in (fit, evaluate, fit):
        act(plain)
    asked = Collection(tensors=("*",), raw=True, modes=("train", "eval"))
    recorded(tmp_path, {"all": asked}, watched, fit, evaluate, fit)
    pairs = zip(plain.get_weights(), watched.get_weights(), strict=True)
    assert all(one.tobytes() == other.tobytes() for one, other in pairs)
