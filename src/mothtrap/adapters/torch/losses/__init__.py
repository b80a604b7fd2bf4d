"""Losses: the operations that compute them, their inputs and their targets."""
