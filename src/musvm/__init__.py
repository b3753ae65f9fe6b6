"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib.metadata import version

from musvm.estimator import UniversumSVC

__all__ = ["UniversumSVC"]

__version__ = version("musvm")
