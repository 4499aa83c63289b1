"""Side-by-side films of an evaluation, rendered after the fact from its traces."""
