"""Speedup Patch: make a learned robot policy faster, without retraining it."""

__version__ = "0.1.0"
