"""`write`: from a fitted search or model to the report's file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from musvm._input.tensors import to_host
from musvm._progress import Progress
from musvm.report import content, page, sentences, text
from musvm.report.models import Described, Fit
from musvm.report.subject import Subject
from musvm.search.criteria import in_words
from musvm.search.rule import IN_WORDS as SOFT_ERROR

DELTAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def write(
    search_or_model: Any,
    X: Any,
    y: Any,
    universum: Any,
    path: str | os.PathLike[str],
    *,
    sample_weight: Any = None,
    deltas: Sequence[float] | None = None,
    title: str = "Universum SVM report",
    overwrite: bool = False,
    verbose: int = 0,
) -> Path:
    """Write a report about a fitted search or model as one HTML file.

    The file opens in any browser, without a network. It shows the data in numbers, the cells of
    the search, the SVM with and without universum, histograms of projections that follow a slider
    over Delta, the diagnosis of the universum, and what the duality gaps certify. The models along
    Delta are fitted for the report, with the C, kernel and weights of the model.

    Parameters
    ----------
    search_or_model : UniversumSVCCV or UniversumSVC
        What the report is about; fitted.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The data of its fit, as they were passed to `fit`.

    y : array-like of shape (n_samples,)
        The labels of the fit. Rows of `universum_label` are universum points.

    universum : {array-like, sparse matrix} of shape (m, n_features), a tuple or list of such \
arrays, or None
        The universum. The model itself may have been fitted without it: the report then compares
        it with an SVM that uses this universum.

    path : str or path
        The file to write.

    sample_weight : array-like of shape (n_samples,), default=None
        The sample weights of the fit.

    deltas : sequence of float, default=None
        The values of Delta on the slider, besides that of the model. None takes
        0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1 and the values that were searched.

    title : str, default="Universum SVM report"
        Heading of the report.

    overwrite : bool, default=False
        Whether a file of that name is replaced.

    verbose : int, default=0
        1 shows a progress bar if the fits take more than a few seconds.

    Returns
    -------
    path : Path
        The file. It appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from musvm import UniversumSVC, report
    >>> from musvm.datasets import load_digits_universum
    >>> digits = load_digits_universum(classes=(3, 5, 8), n_per_class=20, m=50, random_state=0)
    >>> X, y, U = digits.data, digits.target, digits.universum
    >>> model = UniversumSVC(gamma=0.1, delta=0.1).fit(X, y, universum=U)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = report.write(model, X, y, U, Path(folder, "digits.html"))
    ...     print(file.name, file.stat().st_size > 1_000_000)
    digits.html True
    """
    path = Path(path)
    page.require_writable(path, overwrite=overwrite)
    subject = Subject.of(search_or_model)
    given = Fit(subject.model, *map(to_host, (X, y, universum, sample_weight)))
    document = Document(subject, given, deltas, verbose)
    page.write_text(path, page.render(document.fields(title)), overwrite=overwrite)
    return path


class Document:
    """Everything that the page shows."""

    def __init__(
        self, subject: Subject, given: Fit, deltas: Sequence[float] | None, verbose: int
    ) -> None:
        self.subject = subject
        self.family = subject.family(given)
        self.path: list[Described] = []
        values = self._deltas(deltas) if self.family.has_universum else []
        with Progress("Report", 1 + len(values), verbose=verbose) as progress:
            self.plain = self.family.plain()
            progress.update(1)
            for model in self.family.path(values):
                self.path.append(model)
                progress.update(1)

    def _deltas(self, given: Sequence[float] | None) -> list[float]:
        searched = self.subject.results.get("delta", [])
        chosen = [*DELTAS, *searched] if given is None else given
        values = sorted({float(delta) for delta in [*chosen, self.family.delta]})
        if not all(0 <= value < float("inf") for value in values):
            raise ValueError("deltas must be finite and not negative.")
        return values

    @property
    def shown(self) -> int:
        """Position on the path of the MU-SVM that is compared with the plain SVM."""
        return [model.delta for model in self.path].index(self.family.delta)

    @property
    def models(self) -> list[Described]:
        """The plain SVM, and the MU-SVM that it is compared with."""
        return [self.plain, self.path[self.shown]] if self.path else [self.plain]

    @property
    def own(self) -> Described:
        """The one of them that the report is about."""
        return self.models[0 if self.family.model_is_plain else 1]

    def fields(self, title: str) -> dict[str, Any]:
        """What the template needs."""
        family, models = self.family, self.models
        return {
            "title": text.as_text(title),
            "version": version("musvm"),
            "date": f"{datetime.now(UTC):%d %B %Y}",
            "has_universum": family.has_universum,
            "classes": [text.as_text(name) for name in family.data.classes.tolist()],
            "summary": sentences.summary(self.subject, models, self.criterion),
            "facts": content.data_facts(family),
            "data_table": content.data_table(family),
            "notes": content.data_notes(family),
            "features": content.feature_names(family),
            "search": self._search(),
            "models": {
                "sentences": sentences.models(self.subject, family, models),
                "table": content.comparison_table(models, self.criterion),
                "parameters": content.parameter_table(family),
            },
            "left_out": {
                "sentence": sentences.left_out(self.own, self.family.method),
                "classes": content.class_table(models, self.criterion),
                "confusion": content.confusion_table(self.own),
            },
            "path_table": content.path_table(self.plain, self.path, self.criterion),
            "criterion": self.criterion,
            "figures": content.figures(self.plain, self.path, self.shown if self.path else 0),
            "diagnosis": self._diagnosis(),
            "certificate": {
                "table": content.certificate_table(models),
                "sentences": sentences.certificate(family, models),
            },
        }

    def _search(self) -> dict[str, Any] | None:
        search = self.subject.search
        if search is None:
            return None
        return {
            "sentence": sentences.search(self.subject),
            "finalists": content.finalists_table(search.comparison_, search.results_),
            "decision": [search.comparison_.decision, SOFT_ERROR],
            "hints": search.hints_,
            "table": content.search_table(
                search.results_, int(search.best_index_), self.subject.ranked_by
            ),
        }

    @property
    def criterion(self) -> str:
        """What the left-out errors of all models here are, in words."""
        return in_words(self.family.method)

    def _diagnosis(self) -> dict[str, Any]:
        if not self.family.has_universum:
            return {"sentences": ["No universum was given."], "table": None}
        universa = self.family.diagnosis(self.plain)
        return {
            "sentences": sentences.diagnosis(universa),
            "table": content.diagnosis_table(universa),
        }
