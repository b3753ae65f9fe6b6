"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible."""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from musvm.display import ProjectionHistogramDisplay
from musvm.estimator import UniversumSVC
from musvm.io.model_file import ModelFileError, load, save
from musvm.io.onnx_export import to_onnx
from musvm.loo import loo_error
from musvm.pipeline import UniversumPipeline, make_universum_pipeline
from musvm.rejection import RejectingClassifier
from musvm.search import UniversumSplit, UniversumSVCCV, make_universum_scorer
from musvm.verification import Verification, verify

__all__ = [
    "ModelFileError",
    "ProjectionHistogramDisplay",
    "RejectingClassifier",
    "UniversumPipeline",
    "UniversumSVC",
    "UniversumSVCCV",
    "UniversumSplit",
    "Verification",
    "load",
    "loo_error",
    "make_universum_pipeline",
    "make_universum_scorer",
    "save",
    "to_onnx",
    "verify",
]

__version__ = version("musvm")

# Rooms that are opened when somebody enters: `musvm.universum` needs no import of its own.
_ROOMS = ("datasets", "report", "torch", "universum")


def __getattr__(name: str) -> ModuleType:
    if name in _ROOMS:
        return import_module(f"musvm.{name}")
    raise AttributeError(f"module 'musvm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
