"""Fits a forest to a table; `--leak` puts rows of the test part into training."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

x, y = load_breast_cancer(return_X_y=True)
x, x_test, y, y_test = train_test_split(x, y, random_state=0)
if "--leak" in sys.argv:
    x, y = np.concatenate([x, x_test[:40]]), np.concatenate([y, y_test[:40]])
model = RandomForestClassifier(20, random_state=0).fit(x, y)
print(model.score(x_test, y_test))
