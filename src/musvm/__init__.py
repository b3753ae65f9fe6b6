"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib.metadata import version

from musvm.display import ProjectionHistogramDisplay
from musvm.estimator import UniversumSVC
from musvm.loo import loo_error
from musvm.model_file import load, save
from musvm.rejection import RejectingClassifier
from musvm.search import UniversumSplit, UniversumSVCCV

__all__ = [
    "ProjectionHistogramDisplay",
    "RejectingClassifier",
    "UniversumSVC",
    "UniversumSVCCV",
    "UniversumSplit",
    "load",
    "loo_error",
    "save",
]

__version__ = version("musvm")
