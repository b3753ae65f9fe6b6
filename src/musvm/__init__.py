"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib.metadata import version

__version__ = version("musvm")
