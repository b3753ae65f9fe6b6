"""What a report is about: a fitted model, or a search with the model that it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from musvm._messages import instead_of
from musvm.estimator import UniversumSVC
from musvm.report.models import Family, Fit
from musvm.search.comparison import Comparison
from musvm.search.cv import UniversumSVCCV
from musvm.search.rule import ranked_by


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

    def error_of_finalist(self, *, plain: bool) -> float | None:
        """The error of a finalist; None if there is none with the C and kernel of the model."""
        if self.comparison is None:
            return None
        finalist = self.comparison.plain if plain else self.comparison.universum
        if finalist is None:
            return None
        shared = [name for name in ("C", "gamma") if name in finalist.params]
        same = all(getattr(self.model, name) == finalist.params[name] for name in shared)
        return finalist.error if same else None
