"""Experiments on real data, one module each: ``python -m musvm.experiments.NAME --data DIR``."""
