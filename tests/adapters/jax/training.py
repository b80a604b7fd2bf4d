"""Small trainings of many kinds, each of which returns its final weights as bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS = 12
PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


def as_bytes(tree: Any) -> bytes:
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(tree) if hasattr(leaf, "dtype")]
    floats = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return b"".join(np.asarray(leaf).tobytes() for leaf in floats)


def data(rows: int = 16, steps: int = STEPS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = rng.normal(size=(rows, 6)).astype(np.float32)
        yield x, (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0)


def weights() -> dict[str, dict[str, jax.Array]]:
    one, two = jax.random.split(jax.random.PRNGKey(0))
    return {
        "first": {"w": 0.3 * jax.random.normal(one, (6, 16)), "b": jnp.zeros(16)},
        "second": {"w": 0.3 * jax.random.normal(two, (16, 3)), "b": jnp.zeros(3)},
    }


def loss_fn(params: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ params["first"]["w"] + params["first"]["b"])
    logits = hidden @ params["second"]["w"] + params["second"]["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def descend(params: Any, grads: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def with_optax(optimizer: Any, **options: Any) -> Any:
    params = weights()
    state = optimizer.init(params)

    @functools.partial(jax.jit, **options)
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    for x, y in data():
        params, state, _ = step(params, state, x, y)
    return params


@program
def plain() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def without_a_loss() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        return descend(params, jax.grad(loss_fn)(params, x, y))

    params = weights()
    for x, y in data():
        params = update(params, x, y)
    return params


@program
def adam() -> Any:
    return with_optax(optax.adam(1e-2))


@program
def donated() -> Any:
    return with_optax(optax.adam(1e-2), donate_argnums=(0, 1))


@program
def chained() -> Any:
    return with_optax(optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2)))


@program
def several_micro_batches() -> Any:
    return with_optax(optax.MultiSteps(optax.adam(1e-2), every_k_schedule=3))


@program
def injected_rate() -> Any:
    schedule = optax.cosine_decay_schedule(1e-2, STEPS)
    return with_optax(optax.inject_hyperparams(optax.adam)(learning_rate=schedule))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any, train: bool = True) -> Any:
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(16)(x))
        x = nn.Dropout(0.3, deterministic=not train)(nn.relu(x))
        return nn.Dense(3)(x)


@program
def linen() -> Any:
    class State(train_state.TrainState):
        statistics: Any

    net = Net()
    made = net.init(jax.random.PRNGKey(0), jnp.ones((2, 6)), False)
    state = State.create(
        apply_fn=net.apply,
        params=made["params"],
        tx=optax.adam(1e-2),
        statistics=made["batch_stats"],
    )

    @jax.jit
    def step(state: Any, x: Any, y: Any, key: Any) -> Any:
        def loss(params: Any) -> Any:
            variables = {"params": params, "batch_stats": state.statistics}
            logits, changed = state.apply_fn(
                variables, x, True, rngs={"dropout": key}, mutable=["batch_stats"]
            )
            each = optax.softmax_cross_entropy_with_integer_labels(logits, y)
            return each.mean(), changed["batch_stats"]

        (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, statistics=changed), value

    key = jax.random.PRNGKey(1)
    for number, (x, y) in enumerate(data()):
        state, _ = step(state, x, y, jax.random.fold_in(key, number))
    return state.params, state.statistics


class NnxNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(6, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.second = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


@program
def with_nnx() -> Any:
    net = NnxNet(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss(net: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

        value, grads = nnx.value_and_grad(loss)(net)
        optimizer.update(net, grads)
        return value

    for x, y in data():
        step(net, optimizer, x, y)
    return nnx.state(net, nnx.Param)


@program
def with_equinox() -> Any:
    net = eqx.nn.MLP(6, 3, 16, 1, key=jax.random.PRNGKey(0))
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(net, eqx.is_array))

    @eqx.filter_jit
    def step(net: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(net: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

        value, grads = eqx.filter_value_and_grad(loss)(net)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(net, updates), state, value

    for x, y in data():
        net, state, _ = step(net, state, x, y)
    return eqx.filter(net, eqx.is_array)


@program
def scanned() -> Any:
    @jax.jit
    def epoch(params: Any, xs: Any, ys: Any) -> Any:
        def body(params: Any, batch: Any) -> Any:
            loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
            return descend(params, grads), loss

        return jax.lax.scan(body, params, (xs, ys))

    params = weights()
    xs, ys = (np.stack(column) for column in zip(*data(), strict=True))
    for _ in range(3):
        params, _ = epoch(params, xs, ys)
    return params


@program
def rematerialized() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(jax.checkpoint(loss_fn))(params, x, y)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def row_by_row() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        def of_row(x: Any, y: Any) -> Any:
            return jax.value_and_grad(loss_fn)(params, x[None], y[None])

        losses, grads = jax.vmap(of_row)(x, y)
        return descend(params, jax.tree.map(lambda g: g.mean(0), grads)), losses.mean()

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def half_precision() -> Any:
    def loss(params: Any, x: Any, y: Any) -> Any:
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        return loss_fn(half, x.astype(jnp.bfloat16), y).astype(jnp.float32)

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return descend(params, grads), value

    params = weights()
    for x, y in data():
        params, _ = update(params, jnp.asarray(x), y)
    return params


@program
def two_players() -> Any:
    @jax.jit
    def first(a: Any, b: Any, x: Any) -> Any:
        loss, grad = jax.value_and_grad(lambda a: ((x @ a - x @ b) ** 2).mean())(a)
        return a - 0.1 * grad, loss

    @jax.jit
    def second(a: Any, b: Any, x: Any) -> Any:
        loss, grad = jax.value_and_grad(lambda b: -((x @ a - x @ b) ** 2).mean())(b)
        return b - 0.01 * grad, loss

    a, b = jnp.ones((6, 2)), jnp.zeros((6, 2))
    for x, _ in data():
        a, _ = first(a, b, x)
        b, _ = second(a, b, x)
    return a, b


@program
def gradients_compiled_only() -> Any:
    compiled = jax.jit(jax.value_and_grad(loss_fn))
    optimizer, params = optax.adam(1e-2), weights()
    state = optimizer.init(params)
    for x, y in data():
        _, grads = compiled(params, x, y)
        updates, state = optimizer.update(grads, state)
        params = optax.apply_updates(params, updates)
    return params


@program
def nothing_compiled() -> Any:
    params = weights()
    for x, y in data(steps=4):
        params = descend(params, jax.grad(loss_fn)(params, x, y))
    return params


@program
def compiled_method() -> Any:
    class Trainer:
        def __init__(self) -> None:
            self.rate = 0.1

        @functools.partial(jax.jit, static_argnums=0)
        def update(self, params: Any, x: Any, y: Any) -> Any:
            loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
            return jax.tree.map(lambda p, g: p - self.rate * g, params, grads), loss

    trainer, params = Trainer(), weights()
    for x, y in data():
        params, _ = trainer.update(params, x, y)
    return params


@program
def compiled_in_compiled() -> Any:
    gradients = jax.jit(jax.value_and_grad(loss_fn))

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = gradients(params, x, y)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def two_devices() -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    rows, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    params = jax.device_put(weights(), whole)
    for x, y in data():
        params, _ = update(params, jax.device_put(x, rows), jax.device_put(y, rows))
    return params


@program
def mapped() -> Any:
    @functools.partial(jax.pmap, axis_name="rows")
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        grads = jax.lax.pmean(grads, "rows")
        return descend(params, grads), jax.lax.pmean(loss, "rows")

    params = jax.tree.map(lambda p: jnp.stack([p, p]), weights())
    for x, y in data():
        params, _ = update(params, x.reshape(2, 8, 6), y.reshape(2, 8))
    return params


@program
def prints() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        jax.debug.callback(lambda _: None, loss)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def second_derivatives() -> Any:
    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        def penalized(params: Any) -> Any:
            slope = jax.grad(lambda x: loss_fn(params, x, y))(x)
            return loss_fn(params, x, y) + 0.1 * (slope**2).sum()

        loss, grads = jax.value_and_grad(penalized)(params)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def over_shards() -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        @functools.partial(
            jax.shard_map, mesh=mesh, in_specs=(P(), P("rows"), P("rows")), out_specs=(P(), P())
        )
        def gradients(params: Any, x: Any, y: Any) -> Any:
            loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
            return jax.lax.pmean(loss, "rows"), jax.lax.pmean(grads, "rows")

        loss, grads = gradients(params, x, y)
        return descend(params, grads), loss

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
    return params


@program
def donated_shards() -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    rows, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())
    optimizer = optax.adam(1e-2)

    @functools.partial(jax.jit, donate_argnums=(0, 1), static_argnames="rate")
    def update(params: Any, state: Any, x: Any, y: Any, *, rate: float) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, optax.tree.scale(rate, updates)), state, loss

    params = jax.device_put(weights(), whole)
    state = jax.device_put(optimizer.init(params), whole)
    for x, y in data():
        x, y = jax.device_put(x, rows), jax.device_put(y, rows)
        params, state, _ = update(params, state, x, y, rate=0.5)
    return params
