"""Model selection: the two-step search, and splits that respect a universum."""

from musvm.search.cv import UniversumSVCCV
from musvm.search.scoring import make_universum_scorer
from musvm.search.split import UniversumSplit

__all__ = ["UniversumSVCCV", "UniversumSplit", "make_universum_scorer"]
