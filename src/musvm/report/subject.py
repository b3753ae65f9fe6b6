"""What a report is about: a fitted model, or a search with the model that it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from musvm._messages import instead_of
from musvm.estimator import UniversumSVC
from musvm.report import text
from musvm.report.models import Family, Fit
from musvm.search.comparison import Comparison
from musvm.search.cv import UniversumSVCCV
from musvm.search.rule import ranked_by

SYMBOLS = {"C": "C", "gamma": "γ"}


@dataclass(frozen=True)
class Subject:
    """What the report is about: a model, and the search that it comes from, if any."""

    model: UniversumSVC
    search: Any = None

    @classmethod
    def of(cls, search_or_model: Any) -> Subject:
        check_is_fitted(search_or_model)
        if isinstance(search_or_model, UniversumSVCCV):
            return cls(search_or_model.best_estimator_, search_or_model)
        if isinstance(search_or_model, UniversumSVC):
            return cls(search_or_model)
        raise TypeError(
            "A report is about a UniversumSVC or a UniversumSVCCV, got "
            f"{type(search_or_model).__name__}. {instead_of(search_or_model)}"
        )

    @property
    def results(self) -> Mapping[str, Any]:
        return {} if self.search is None else self.search.results_

    @property
    def judge(self) -> Any:
        """What judged the cells of the search."""
        return self.search.criterion if self.search.cv is None else self.search.cv

    @property
    def ranked_by(self) -> str:
        """The column of `results` that ranks the cells."""
        return ranked_by(self.judge, self.search.scoring)

    @property
    def comparison(self) -> Comparison | None:
        """The finalists of the search."""
        return None if self.search is None else self.search.comparison_

    def family(self, given: Fit) -> Family:
        """The models to report on."""
        rival = None if self.comparison is None else self.comparison.universum
        if rival is None:
            return Family(given, delta=self.model.delta)
        return Family(
            given,
            universum_weight=rival.params["universum_weight"],
            delta=rival.params["delta"],
        )

    @property
    def finalists_elsewhere(self) -> list[tuple[str, str]]:
        """Finalists with another C or gamma than the model has, and these, in words."""
        if self.comparison is None:
            return []
        finalists = {"plain SVM": self.comparison.plain, "MU-SVM": self.comparison.universum}
        found = []
        for name, finalist in finalists.items():
            given = {} if finalist is None else finalist.params
            settings = {key: given[key] for key in SYMBOLS if key in given}
            if any(getattr(self.model, key) != value for key, value in settings.items()):
                words = (f"{SYMBOLS[key]} = {_short(value)}" for key, value in settings.items())
                found.append((name, " and ".join(words)))
        return found


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else text.compact(value)
