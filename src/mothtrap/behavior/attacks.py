"""Attacks on networks and tables: small changes of inputs that change the class.

Shape suffixes: R = rows, K = outputs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.inside import Floats, Margin, network_of, questions
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table

STEPS = 20
"""Steps of PGD, as in Madry et al. (2018)."""
RANGE = (0.05, 0.95)
"""Quantiles between which a table attack moves a number."""
STEP = 2.5
"""Length of all steps of PGD together in units of the radius, as in Madry et al. (2018)."""


def fgsm(subject: Subject, rows: npt.NDArray[np.int64], radius: float) -> npt.NDArray[np.float32]:
    """Return rows after one step along the sign of the gradient (Goodfellow et al., 2015).

    Args:
        subject: The probed model and its rows.
        rows: Indices of the rows to attack.
        radius: Largest change of a value.
    """
    given, low, high = _floats(subject, rows)
    target_R = subject.judged.target_R[rows]
    return np.clip(given + radius * _uphill(subject, given, target_R), low, high)


def pgd(subject: Subject, rows: npt.NDArray[np.int64], radius: float) -> npt.NDArray[np.float32]:
    """Return rows after 20 projected gradient steps from a random start (Madry et al., 2018)."""
    given, low, high = _floats(subject, rows)
    target_R = subject.judged.target_R[rows]
    start = subject.rng("pgd").uniform(-radius, radius, given.shape).astype(np.float32)
    found = np.clip(given + start, low, high)
    for _ in range(STEPS):
        found = found + STEP * radius / STEPS * _uphill(subject, found, target_R)
        found = np.clip(np.clip(found, given - radius, given + radius), low, high)
    return np.asarray(found, np.float32)


def noise(subject: Subject, rows: npt.NDArray[np.int64], radius: float) -> npt.NDArray[np.float32]:
    """Return rows in which each value is randomly raised or lowered by the radius."""
    given, low, high = _floats(subject, rows)
    signs = subject.rng("noise").choice([-1.0, 1.0], given.shape)
    return np.asarray(np.clip(given + radius * signs, low, high), np.float32)


def _floats(
    subject: Subject, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], float, float]:
    """Return rows, and the range of all values."""
    values = np.asarray(subject.table.data)
    return values[rows].astype(np.float32), float(values.min()), float(values.max())


def _uphill(
    subject: Subject, given: npt.NDArray[np.float32], target_R: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Return the signs of the change that lowers the lead of the true class over the next one."""
    network = network_of(subject)
    with questions(subject, 2 * len(given)):
        output = network.outputs(given)
        weight = -_true_margin(subject, output, target_R).weights(output)
        return np.sign(network.gradient(given, weight)).astype(np.float32)


def _true_margin(subject: Subject, output_RK: Floats, target_R: npt.NDArray[np.int64]) -> Margin:
    """Return the margin of the true class over the best of the other classes."""
    form = subject.reading.form
    if output_RK.shape[1] == 1:
        return Margin(form, target_R, 1 - target_R)
    others = output_RK.copy()
    others[np.arange(len(others)), target_R] = -np.inf
    return Margin(form, target_R, others.argmax(axis=1))


def two_columns(
    subject: Subject, rows: npt.NDArray[np.int64], share: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Make small changes to at most two columns of each row, and test whether the class changes.

    The attack only needs predictions. It tries both directions of each number, keeps the change
    that lowers the probability of the class most, and adds the best second change.

    Args:
        subject: The probed model and its rows.
        rows: Indices of the rows to attack.
        share: change of a number, as a share of the range between its quantiles of 5 and 95 %.

    Returns:
        The rows whose class changes, and those whose class changes after as many random changes of
        the same size, both (R,).
    """
    names = [each.name for each in subject.table.columns if each.is_number and each.distinct() > 10]
    before_R = subject.judged.scores[rows].argmax(axis=1)
    table = subject.table.take(rows)
    found, flipped_R = table, np.zeros(len(rows), bool)
    for _ in range(2):
        found, flipped_R = _best_change(subject, found, table, names, share, before_R)
    rng = subject.rng("two columns")
    chosen = rng.integers(0, len(names), (2, len(rows)))
    random = table
    for place, name in enumerate(names):
        is_hit_R = (chosen == place).any(axis=0)
        sign_R = rng.choice([-1.0, 1.0], len(rows)) * is_hit_R
        random = random.replaced({name: _moved(subject, random, name, share * sign_R)})
    random_R = subject.ask(random).argmax(axis=1) != before_R
    return flipped_R, random_R


def _best_change(
    subject: Subject,
    table: Table,
    start: Table,
    names: list[str],
    share: float,
    before_R: npt.NDArray[np.int64],
) -> tuple[Table, npt.NDArray[np.bool_]]:
    """Return the rows after the change of one column that lowers the class most."""
    place = np.arange(len(table))
    score = subject.ask(table)
    best_R = score[place, before_R]
    chosen_R = np.full(len(table), -1)
    tried: list[tuple[str, Floats]] = []
    for name in names:
        for sign in (-1.0, 1.0):
            value_R = _moved(subject, start, name, np.full(len(table), sign * share))
            score_R = subject.ask(table.replaced({name: value_R}))[place, before_R]
            is_lower_R = score_R < best_R
            best_R = np.where(is_lower_R, score_R, best_R)
            chosen_R[is_lower_R] = len(tried)
            tried.append((name, value_R))
    for number, (name, value_R) in enumerate(tried):
        hit_R = chosen_R == number
        if hit_R.any():
            own_R = table.column(name).number_R
            assert own_R is not None
            table = table.replaced({name: np.where(hit_R, value_R, own_R)})
    return table, subject.ask(table).argmax(axis=1) != before_R


def _moved(subject: Subject, table: Table, name: str, share_R: Floats) -> Floats:
    """Return a column, moved by shares of its range and kept inside of it."""
    column = subject.table.column(name)
    low, high = np.quantile(column.known_R, RANGE)
    own_R = table.column(name).number_R
    assert own_R is not None
    change_R = share_R * (high - low)
    if column.is_whole:
        change_R = np.round(change_R)
    moved_R = own_R + change_R
    is_inside_R = (moved_R >= low) & (moved_R <= high)
    return np.where(is_inside_R, moved_R, own_R)
