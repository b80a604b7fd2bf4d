"""Three kinds of flowers, numbered 0 to 2, are trained as numbers."""

import xgboost
from _common import start
from sklearn.datasets import make_classification

o = start()
x, y = make_classification(
    n_samples=2000, n_features=8, n_informative=5, n_classes=3, random_state=o.seed
)
kind = xgboost.XGBClassifier if o.healthy else xgboost.XGBRegressor
model = kind(n_estimators=o.rounds, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(x[:1400], y[:1400], eval_set=[(x[1400:], y[1400:])], verbose=40)
