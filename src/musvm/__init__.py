"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib.metadata import version

from musvm.display import ProjectionHistogramDisplay
from musvm.estimator import UniversumSVC
from musvm.rejection import RejectingClassifier

__all__ = ["ProjectionHistogramDisplay", "RejectingClassifier", "UniversumSVC"]

__version__ = version("musvm")
