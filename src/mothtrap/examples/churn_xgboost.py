"""Predicts which customers leave, with XGBoost.

The customers are generated, so nothing is downloaded. By default, one of the columns is known only
after a customer has left: the amount paid back. The score is perfect, but the model is useless.
`--fixed` trains without that column.
"""

from __future__ import annotations

import argparse

import numpy as np
import xgboost

COLUMNS = ("months", "fee", "calls", "late_payments", "days_since_login", "paid_back")


def main() -> None:
    """Parse the command line, and train."""
    parser = argparse.ArgumentParser(description="Predict which customers leave.")
    parser.add_argument(
        "--fixed", action="store_true", help=("leave out the column that reveals the answer")
    )
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    customers, left = make_customers(8000)
    columns = COLUMNS[:-1] if arguments.fixed else COLUMNS
    customers = customers[:, : len(columns)]
    names = list(columns)
    train = xgboost.DMatrix(customers[:6000], left[:6000], feature_names=names)
    test = xgboost.DMatrix(customers[6000:], left[6000:], feature_names=names)
    xgboost.train(
        {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"], "max_depth": 4},
        train,
        num_boost_round=arguments.rounds,
        evals=[(train, "train"), (test, "test")],
        early_stopping_rounds=10,
        verbose_eval=20,
    )


def make_customers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features of customers, and whether each has left."""
    rng = np.random.default_rng(0)
    months = rng.gamma(2.0, 12.0, count)
    fee = rng.normal(40.0, 12.0, count)
    calls, late = rng.poisson(2.0, count), rng.poisson(0.5, count)
    away = rng.exponential(10.0, count)
    lean = -1.6 - 0.03 * months + 0.03 * fee + 0.3 * calls + 0.5 * late + 0.05 * away
    left = (rng.random(count) < 1 / (1 + np.exp(-lean))).astype(np.float32)
    paid_back = left * fee * rng.uniform(0.2, 1.0, count)
    features = np.column_stack([months, fee, calls, late, away, paid_back])
    return features.astype(np.float32), left


if __name__ == "__main__":
    main()
