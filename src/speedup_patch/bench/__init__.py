"""The benchmarks of the paper in closed loop: each part is one small module that gives rows of a table per suite."""
