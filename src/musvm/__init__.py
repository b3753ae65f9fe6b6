"""Multiclass universum support vector machines: exact, certified, scikit-learn compatible.

Names are imported when they are first used: `musvm --help` need not wait for scikit-learn.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musvm.approximation import ApproximationCost, approximation_cost
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
    "ApproximationCost",
    "ModelFileError",
    "ProjectionHistogramDisplay",
    "RejectingClassifier",
    "UniversumPipeline",
    "UniversumSVC",
    "UniversumSVCCV",
    "UniversumSplit",
    "Verification",
    "approximation_cost",
    "load",
    "loo_error",
    "make_universum_pipeline",
    "make_universum_scorer",
    "save",
    "to_onnx",
    "verify",
]

__version__ = version("musvm")

# Where the names above are defined.
_HOMES = {
    "approximation": ["ApproximationCost", "approximation_cost"],
    "display": ["ProjectionHistogramDisplay"],
    "estimator": ["UniversumSVC"],
    "io.model_file": ["ModelFileError", "load", "save"],
    "io.onnx_export": ["to_onnx"],
    "loo": ["loo_error"],
    "pipeline": ["UniversumPipeline", "make_universum_pipeline"],
    "rejection": ["RejectingClassifier"],
    "search": ["UniversumSVCCV", "UniversumSplit", "make_universum_scorer"],
    "verification": ["Verification", "verify"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Rooms that are opened when somebody enters: `musvm.universum` needs no import of its own.
_ROOMS = ("datasets", "report", "torch", "universum")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"musvm.{name}")
    if name in _HOME_OF:
        found = getattr(import_module(f"musvm.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'musvm' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What users import, and names that begin with an underscore; not what this file needs."""
    own = {name for name in globals() if name.startswith("_")}
    return sorted({*own, *__all__, *_ROOMS})
