"""Speedup Patch: make a learned robot policy faster, without retraining it."""
