"""Model selection: the two-step search, and splits that respect a universum."""

from musvm.search.cv import UniversumSVCCV
from musvm.search.split import UniversumSplit

__all__ = ["UniversumSVCCV", "UniversumSplit"]
