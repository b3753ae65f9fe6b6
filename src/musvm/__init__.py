"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib.metadata import version

from musvm.display import ProjectionHistogramDisplay
from musvm.estimator import UniversumSVC
from musvm.io.model_file import ModelFileError, load, save
from musvm.io.onnx_export import to_onnx
from musvm.loo import loo_error
from musvm.rejection import RejectingClassifier
from musvm.search import UniversumSplit, UniversumSVCCV

__all__ = [
    "ModelFileError",
    "ProjectionHistogramDisplay",
    "RejectingClassifier",
    "UniversumSVC",
    "UniversumSVCCV",
    "UniversumSplit",
    "load",
    "loo_error",
    "save",
    "to_onnx",
]

__version__ = version("musvm")
