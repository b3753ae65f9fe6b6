"""Universum data: making it, selecting it, and judging it before it is used."""

from musvm._input.weights import balanced_weight
from musvm.universum.diagnosis import Diagnosis, UniversumDiagnosis, diagnose
from musvm.universum.making import random_average, random_noise
from musvm.universum.pipeline import WithUniversum
from musvm.universum.selecting import select_in_between

__all__ = [
    "Diagnosis",
    "UniversumDiagnosis",
    "WithUniversum",
    "balanced_weight",
    "diagnose",
    "random_average",
    "random_noise",
    "select_in_between",
]
