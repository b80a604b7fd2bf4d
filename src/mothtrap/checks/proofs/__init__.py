"""Proofs on one recorded step."""
