"""Diagnosis: what a plain SVM says about a universum before it is used.

From the projections of `projections.py`, for training points x with projections p onto their own
classes and universum points u with decision values f:

    separability    share of the training points with p >= 1 - EPSILON
    piling          share of the training points with |p - 1| <= EPSILON
    spread          mean of max_l f_l(u) - min_l f_l(u), in units of the margin
    inside          share of the universum points within the margins: all projections in (-1, 1)
    label entropy   entropy of the labels given to the universum, over log L: 1 if even, 0 if all
                    get the same label

    nuisance        how much the universum varies along differences within classes, relative to
                    those between them: rho of `nuisance.py`. It ranks universa for one task,
                    but cannot tell that one of them consists of points of a class: those that the
                    model takes mostly for one class come last, the more of them the later

They measure and do not decide. Whether a universum helps is found out by fitting with it and
without, which is what the search does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import entropy
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from musvm._input import tensors
from musvm._input.reading import is_universum, universum_parts
from musvm._input.tensors import IntArray
from musvm._messages import Tabulated
from musvm._sklearn import safe_indexing
from musvm.estimator import UniversumSVC
from musvm.projections import Projections, nested, project, universum_label
from musvm.universum.nuisance import nuisance

EPSILON = 0.05


# A universum with more of its points than this taken for one class is likely to be that class:
# `benchmarks/one_class.py` has the table.
LIKELY_A_CLASS = 0.7

TITLES = ("points", "spread", "inside", "label entropy", "taken for", "nuisance")
RANKING = (
    f"Ranked by nuisance, the largest first; after all others, those of which more than "
    f"{LIKELY_A_CLASS:.0%} is taken for one class."
)


@dataclass(frozen=True)
class Measures:
    """The numbers behind a diagnosis; the module's docstring defines them."""

    separability: float
    piling: float
    spread: float
    inside: float
    label_entropy: float
    nuisance: float = float("nan")

    @classmethod
    def of(cls, projections: Projections, nuisance: float = float("nan")) -> Measures:
        own, universum = projections.training, projections.universum
        counts = projections.label_counts
        return cls(
            separability=float(np.mean(own >= 1 - EPSILON)),
            piling=float(np.mean(np.abs(own - 1) <= EPSILON)),
            spread=float(projections.spreads.mean()),
            inside=float(np.mean(np.abs(universum).max(axis=1) < 1)),
            label_entropy=float(entropy(counts) / np.log(len(counts))),
            nuisance=nuisance,
        )


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
    """

    name: str
    n_points: int
    measures: Measures
    majority: Any
    majority_share: float

    @classmethod
    def of(
        cls, name: str, projections: Projections, nuisance: float = float("nan")
    ) -> UniversumDiagnosis:
        """Measure a universum by the projections of its points."""
        counts = projections.label_counts
        return cls(
            name=name,
            n_points=len(projections.universum),
            measures=Measures.of(projections, nuisance),
            majority=projections.classes[counts.argmax()],
            majority_share=float(counts.max() / counts.sum()),
        )

    @property
    def looks_like_a_class(self) -> bool:
        """Whether so much of it is taken for one class that it may be points of that class."""
        return self.majority_share > LIKELY_A_CLASS

    @property
    def taken_for(self) -> str:
        """What most of it is taken for, in words, and what that may mean."""
        doubt = ": it may consist of points of that class" if self.looks_like_a_class else ""
        return f"{self.majority_share:.0%} of it is taken for class {self.majority}{doubt}"

    @property
    def sentence(self) -> str:
        """The measures in words."""
        spread = f"Its decision values spread by {self.measures.spread:.2f} of a margin"
        return f"{spread}, and {self.taken_for}."

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by their names.

        Returns
        -------
        figures : dict
            Numbers and words; NaN for a nuisance that is not defined.
        """
        label = self.majority
        return {
            "n_points": self.n_points,
            **asdict(self.measures),
            "majority": label.item() if hasattr(label, "item") else label,
            "majority_share": self.majority_share,
            "looks_like_a_class": self.looks_like_a_class,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """The measures as the cells of a table, below `TITLES`."""
        numbers = self.measures
        return (
            str(self.n_points),
            f"{numbers.spread:.2f}",
            f"{numbers.inside:.0%}",
            f"{numbers.label_entropy:.2f}",
            f"{self.majority_share:.0%} {self.majority}",
            "-" if np.isnan(numbers.nuisance) else f"{numbers.nuisance:+.2f}",
        )


class Diagnosis(Tabulated):
    """Diagnoses of one or several universa, ranked.

    Iterate over it, or look a universum up by its name.

    Attributes
    ----------
    universa : list of UniversumDiagnosis
        Ranked by their nuisance, the largest first; those without one by the entropy of the
        labels, after the others. Last come universa of which a model takes more than 70 % for
        one class, the more of them the later: a class varies as the classes do, but is no
        universum. Each has a `name`, `measures`, of which ``measures.spread`` is one, `majority`,
        `majority_share`, `looks_like_a_class` and a `sentence`.
    """

    def __init__(self, universa: list[UniversumDiagnosis]) -> None:
        self.universa = sorted(
            universa,
            key=lambda u: (
                u.majority_share if u.looks_like_a_class else 0.0,
                np.isnan(u.measures.nuisance),
                -np.nan_to_num(u.measures.nuisance),
                -u.measures.label_entropy,
            ),
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
            Indexed by name, with the measures.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ImportError("as_frame needs pandas: pip install pandas") from error
        rows = [universum.as_dict() for universum in self.universa]
        names = [universum.name for universum in self.universa]
        return pandas.DataFrame(rows, index=pandas.Index(names, name="universum"))

    def _introduction(self) -> list[str]:
        first = self.universa[0].measures
        return [
            f"Training points at the margin or outside: {first.separability:.0%}, "
            f"at the margin: {first.piling:.0%}"
        ]

    def _rows(self) -> list[list[str]]:
        named = ((u.name, *u.cells) for u in self.universa)
        return [["universum", *TITLES], *([" ".join(c.split()) for c in row] for row in named)]

    def _sentences(self) -> list[str]:
        said = [f"{u.name}: {u.sentence}" for u in self.universa]
        return [RANKING, *said] if len(self) > 1 else said


def diagnose(estimator: Any, X: Any, y: Any, universum: Any) -> Diagnosis:
    """Measure what a plain SVM makes of universa.

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
        The measures, ranked by their nuisance, those that look like one class last. Print it, or
        see `as_frame`.

    Notes
    -----
    - *separability* and *piling*: the shares of the training points that lie outside the margin
      and at it.
    - *spread*: the mean difference of the largest and smallest decision value of a universum
      point; 1 is the margin. *inside*: the share of the universum points that lie within the
      margins of all classes.
    - *label entropy*: 1 if all labels are given to the universum equally often, 0 if it gets
      one label only.

    - *nuisance*: how much the universum varies along differences within classes, relative to
      along differences between class means, in logarithms. The larger, the more it shows what
      the classes have in common. It ranks universa for one task and does not compare tasks; NaN
      for classifiers other than :class:`~musvm.UniversumSVC` and for precomputed kernels.

    None of them tells whether a universum helps. :class:`~musvm.UniversumSVCCV` finds out: it fits
    with the universum and without it, and compares the two in `comparison_`.

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
    >>> [universum.name for universum in report]
    ['other digits', 'ones']
    >>> report["ones"].majority_share > 0.9, report["ones"].looks_like_a_class
    (True, True)
    >>> report["ones"].measures.spread > report["other digits"].measures.spread
    True
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
        rho = _nuisance(estimator, X, projections.codes, y, points)
        diagnoses.append(UniversumDiagnosis.of(name, projections, rho))
    return Diagnosis(diagnoses)


def _nuisance(estimator: Any, X: Any, codes: IntArray, y: Any, universum: Any) -> float:
    """rho of a universum, in the features and with the kernel of the innermost model."""
    *_, svm = nested(estimator)
    if not isinstance(svm, UniversumSVC) or svm.model_.kernel.is_precomputed:
        return float("nan")
    marked = is_universum(column_or_1d(y), universum_label(estimator))
    parts = [*universum_parts(universum), *([safe_indexing(X, marked)] if marked.any() else [])]
    seen = [_as_seen(estimator, part) for part in (safe_indexing(X, ~marked), *parts)]
    points = sp.vstack(seen[1:], "csr") if any(map(sp.issparse, seen)) else np.vstack(seen[1:])
    return nuisance(svm.model_.kernel, seen[0], codes, points)


def _as_seen(estimator: Any, X: Any) -> Any:
    """Points as the innermost model sees them, behind the steps of pipelines."""
    for inner in nested(estimator):
        if hasattr(inner, "steps"):
            X = inner[:-1].transform(X) if len(inner.steps) > 1 else X
    return check_array(tensors.to_host(X), accept_sparse="csr", dtype=np.float64)


def _named(universum: Any) -> dict[str, Any]:
    """The universa by name; a list of arrays is several of them, a tuple the parts of one."""
    if isinstance(universum, Mapping):
        return {str(name): points for name, points in universum.items()}
    if isinstance(universum, list) and all(
        isinstance(part, tuple) or np.ndim(part) == 2 for part in universum
    ):
        return {f"universum {i}": points for i, points in enumerate(universum)}
    return {"universum": universum}
