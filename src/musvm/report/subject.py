"""What a report is about: a fitted model, or a search with the model that it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from musvm.estimator import UniversumSVC
from musvm.report.models import Family, Fit

METHOD = "span"  # where no search has chosen another
CRITERIA = {
    "span": "span bound on the leave-one-out error",
    "span-2016": "span bound of 2016 on the leave-one-out error",
    "loo-estimate": "estimated leave-one-out error",
    "loo": "leave-one-out error",
}


@dataclass(frozen=True)
class Subject:
    """What the report is about: a model, and the search that it comes from, if any."""

    model: UniversumSVC
    search: Any = None

    @classmethod
    def of(cls, search_or_model: Any) -> Subject:
        check_is_fitted(search_or_model)
        model = getattr(search_or_model, "best_estimator_", search_or_model)
        if not isinstance(model, UniversumSVC):
            raise TypeError(
                "A report is about a UniversumSVC or a UniversumSVCCV, got "
                f"{type(search_or_model).__name__}. For a pipeline pass its last step, and the "
                "data as that step sees them."
            )
        return cls(model, None if model is search_or_model else search_or_model)

    @property
    def results(self) -> Mapping[str, Any]:
        return {} if self.search is None else self.search.results_

    def best_cell(self, step: str) -> int | None:
        """The best cell of step (a) or (b) with the C and the kernel of the model."""
        if self.search is None:
            return None
        results, best = self.search.results_, self.search.best_index_
        if results["step"][best] == step:
            return int(best)
        rows = [
            row
            for row in np.flatnonzero(results["step"] == step).tolist()
            if results["C"][row] == results["C"][best]
            and results["kernel_setting"][row] == results["kernel_setting"][best]
        ]
        return min(rows, key=lambda row: results["error"][row], default=None)

    def family(self, given: Fit) -> Family:
        """The models to report on."""
        row = self.best_cell("b")
        if row is None:
            return Family(given, delta=self.model.delta)
        parameters = self.results["params"][row]
        return Family(
            given,
            universum_weight=parameters["universum_weight"],
            delta=parameters["delta"],
        )

    @property
    def criterion(self) -> str:
        """What judges the models, in words: what the search used, or else the span bound."""
        criterion = METHOD if self.search is None else self.search.criterion
        if isinstance(criterion, str):
            return CRITERIA[criterion]
        if isinstance(criterion, int | np.integer):
            return f"{criterion}-fold cross-validation error"
        return "cross-validation error"
