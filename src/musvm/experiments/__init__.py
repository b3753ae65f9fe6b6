"""Experiments on real data, run by `musvm reproduce NAME`, and the demo.

Each is an `Experiment` (`experiment.py`): independent tasks, stored one by one, and a page made of
their outcomes. They use the package as anybody would, by its public names.
"""
