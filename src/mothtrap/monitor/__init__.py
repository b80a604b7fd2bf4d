"""Evaluation of rules on the steps of a worker, during training or afterwards."""
