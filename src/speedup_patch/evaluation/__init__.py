"""Closed-loop evaluation: every scheduler on the same seeds, paired with the unpatched policy."""
