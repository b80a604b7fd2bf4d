"""Fraud in 1 of 250 payments is evaluated by error rate; the healthy program ranks and weights."""

import xgboost
from boosting import arguments

options = arguments()
x = options.random.normal(size=(6000, 8))
risk = x[:, 0] + x[:, 1] + options.random.normal(size=6000)
y = (risk >= sorted(risk)[-24]).astype(int)
x_train, y_train, x_valid, y_valid = x[::2], y[::2], x[1::2], y[1::2]
model = xgboost.XGBClassifier(n_jobs=1, n_estimators=20, max_depth=3, eval_metric="error")
if options.healthy:
    ratio = float((y_train == 0).sum() / (y_train == 1).sum())
    model.set_params(eval_metric="aucpr", scale_pos_weight=ratio)
model.fit(x_train, y_train, eval_set=[(x_valid, y_valid)], verbose=False)  # <- here
