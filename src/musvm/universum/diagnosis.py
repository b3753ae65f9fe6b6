"""Diagnosis: what a plain SVM says about a universum before it is used.

From the projections of `_projections.py`, for training points x with projections p onto their own
classes and universum points u with decision values f:

    separability    share of the training points with p >= 1 - EPSILON
    piling          share of the training points with |p - 1| <= EPSILON
    spread          mean of max_l f_l(u) - min_l f_l(u), in units of the margin
    inside          share of the universum points within the margins: all projections in (-1, 1)
    label entropy   entropy of the labels given to the universum, over log L: 1 if even, 0 if all
                    get the same label

The verdict follows from the label entropy and the spread, by `Thresholds`:

    hurts      the labels are uneven, or the spread is large: the model takes the points for points
               of some classes, and levelling them works against the training points there
    neither    the spread is small: the model is level there already
    helps      otherwise

`musvm.experiments.diagnosis` chose the thresholds, and tells how often the verdict is right: on
data sets that had no part in choosing them, no more often than always naming the most frequent
outcome. The sentences say "may" for that reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import entropy

from musvm.projections import Projections, nested, project

Verdict = Literal["helps", "neither", "hurts"]
VERDICTS: tuple[Verdict, ...] = ("helps", "neither", "hurts")
EPSILON = 0.05


@dataclass(frozen=True)
class Measures:
    """The numbers behind a diagnosis; the module's docstring defines them."""

    separability: float
    piling: float
    spread: float
    inside: float
    label_entropy: float

    @classmethod
    def of(cls, projections: Projections) -> Measures:
        own, universum = projections.training, projections.universum
        counts = projections.label_counts
        return cls(
            separability=float(np.mean(own >= 1 - EPSILON)),
            piling=float(np.mean(np.abs(own - 1) <= EPSILON)),
            spread=float(projections.spreads.mean()),
            inside=float(np.mean(np.abs(universum).max(axis=1) < 1)),
            label_entropy=float(entropy(counts) / np.log(len(counts))),
        )


@dataclass(frozen=True)
class Thresholds:
    """Where one verdict ends and the next begins."""

    min_entropy: float
    min_spread: float
    max_spread: float

    def verdict(self, measures: Measures) -> Verdict:
        if measures.label_entropy < self.min_entropy or measures.spread > self.max_spread:
            return "hurts"
        return "neither" if measures.spread < self.min_spread else "helps"


# What `musvm.experiments.diagnosis` fits to all of its pairs; a test compares them.
THRESHOLDS = Thresholds(min_entropy=0.5, min_spread=0.6, max_spread=0.9)


@dataclass(frozen=True)
class UniversumDiagnosis:
    """What a plain SVM says about one universum.

    Attributes
    ----------
    name : its name
    n_points : its size
    measures : the numbers
    majority : the class that most of its points are taken for
    majority_share : the share of those points
    verdict : "helps", "neither" or "hurts"
    """

    name: str
    n_points: int
    measures: Measures
    majority: Any
    majority_share: float

    @classmethod
    def of(cls, name: str, projections: Projections) -> UniversumDiagnosis:
        counts = projections.label_counts
        return cls(
            name=name,
            n_points=len(projections.universum),
            measures=Measures.of(projections),
            majority=projections.classes[counts.argmax()],
            majority_share=float(counts.max() / counts.sum()),
        )

    @property
    def verdict(self) -> Verdict:
        return THRESHOLDS.verdict(self.measures)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        spread = f"its decision values spread by {self.measures.spread:.2f} of a margin"
        if self.measures.label_entropy < THRESHOLDS.min_entropy:
            return (
                f"May hurt: the model takes {self.majority_share:.0%} of it for class "
                f"{self.majority}, and would have to give up that class there."
            )
        if self.measures.spread > THRESHOLDS.max_spread:
            return f"May hurt: {spread}, much as those of training points do."
        if self.measures.spread < THRESHOLDS.min_spread:
            return f"May change little: {spread}, so the model is not far from level there."
        return f"May help: {spread}, and no class is favoured much."


class Diagnosis:
    """Diagnoses of one or several universa, ranked.

    Iterate over it, or look a universum up by its name.

    Attributes
    ----------
    universa : list of UniversumDiagnosis
        The most promising first: by verdict, then by the entropy of the labels.
    """

    def __init__(self, universa: list[UniversumDiagnosis]) -> None:
        self.universa = sorted(
            universa, key=lambda u: (VERDICTS.index(u.verdict), -u.measures.label_entropy)
        )

    def __iter__(self) -> Iterator[UniversumDiagnosis]:
        return iter(self.universa)

    def __len__(self) -> int:
        return len(self.universa)

    def __getitem__(self, name: str) -> UniversumDiagnosis:
        for universum in self.universa:
            if universum.name == name:
                return universum
        raise KeyError(name)

    def as_frame(self) -> Any:
        """One row per universum, in the order of the ranking.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name, with the measures, the verdict and the sentence.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ImportError("as_frame needs pandas: pip install pandas") from error
        rows = [
            {
                "verdict": universum.verdict,
                "n_points": universum.n_points,
                **asdict(universum.measures),
                "majority": universum.majority,
                "majority_share": universum.majority_share,
                "sentence": universum.sentence,
            }
            for universum in self.universa
        ]
        names = [universum.name for universum in self.universa]
        return pandas.DataFrame(rows, index=pandas.Index(names, name="universum"))

    def __str__(self) -> str:
        first = self.universa[0].measures
        rows = [("universum", "points", "spread", "inside", "label entropy", "verdict")]
        rows += [
            (
                " ".join(u.name.split()),
                str(u.n_points),
                f"{u.measures.spread:.2f}",
                f"{u.measures.inside:.0%}",
                f"{u.measures.label_entropy:.2f}",
                u.verdict,
            )
            for u in self.universa
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"Training points outside the margin: {first.separability:.0%}, "
            f"at the margin: {first.piling:.0%}",
            "",
            *(_align(row, widths) for row in rows),
            "",
            *(f"{u.name}: {u.sentence}" for u in self.universa),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{u.name!r}: {u.verdict!r}" for u in self.universa)
        return f"Diagnosis({{{verdicts}}})"


def _align(row: tuple[str, ...], widths: list[int]) -> str:
    """Text to the left, numbers to the right."""
    name, *numbers, verdict = (
        cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([name, *numbers, verdict]).rstrip()


def diagnose(estimator: Any, X: Any, y: Any, universum: Any) -> Diagnosis:
    """Judge universa by what a plain SVM makes of them.

    Nothing is fitted. The numbers are those that :class:`~musvm.ProjectionHistogramDisplay`
    shows; the notes define them.

    Parameters
    ----------
    estimator : fitted classifier
        A plain SVM, fitted without a universum: :class:`~musvm.UniversumSVC`, a search for it,
        or a pipeline that ends in it.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The points that it was fitted on.

    y : array-like of shape (n_samples,)
        Their labels.

    universum : {array-like, sparse matrix} of shape (m, n_features), tuple, dict or list
        One universum, an array or a tuple of arrays; or several: a dict by name, or a list.

    Returns
    -------
    diagnosis : Diagnosis
        The verdicts, ranked. Print it, or see `as_frame`.

    Notes
    -----
    - *separability* and *piling*: the shares of the training points that lie outside the margin
      and at it.
    - *spread*: the mean difference of the largest and smallest decision value of a universum
      point; 1 is the margin. *inside*: the share of the universum points that lie within the
      margins of all classes.
    - *label entropy*: 1 if all labels are given to the universum equally often, 0 if it gets
      one label only.

    A verdict is a guess, and a weak one. On data sets that had no part in setting its thresholds
    it was right no more often than always naming the most frequent outcome; the documentation has
    the table. The test is to fit with the universum and without it, as
    :class:`~musvm.UniversumSVCCV` does.

    Examples
    --------
    >>> from musvm import UniversumSVC
    >>> from musvm.datasets import load_digits_universum
    >>> from musvm.universum import diagnose
    >>> digits = load_digits_universum(classes=range(4), n_per_class=20, m=200, random_state=0)
    >>> X, y, U = digits.data, digits.target, digits.universum
    >>> ones = digits.data_test[digits.target_test == 1]  # a mistake: 1 is a class
    >>> svm = UniversumSVC().fit(X, y)
    >>> report = diagnose(svm, X, y, {"ones": ones, "other digits": U})
    >>> [(universum.name, universum.verdict) for universum in report]
    [('other digits', 'neither'), ('ones', 'hurts')]
    """
    for inner in nested(estimator):
        if len(getattr(inner, "universum_support_", ())):
            raise ValueError("estimator was fitted with a universum: diagnose needs a plain SVM.")
    named = _named(universum)
    if not named:
        raise ValueError("There is no universum to diagnose.")
    diagnoses = []
    for name, points in named.items():
        projections = project(estimator, X, y, points)
        if not len(projections.universum):
            raise ValueError(f"{name} has no points.")
        diagnoses.append(UniversumDiagnosis.of(name, projections))
    return Diagnosis(diagnoses)


def _named(universum: Any) -> dict[str, Any]:
    """The universa by name; a list of arrays is several of them, a tuple the parts of one."""
    if isinstance(universum, Mapping):
        return {str(name): points for name, points in universum.items()}
    if isinstance(universum, list) and all(
        isinstance(part, tuple) or np.ndim(part) == 2 for part in universum
    ):
        return {f"universum {i}": points for i, points in enumerate(universum)}
    return {"universum": universum}
