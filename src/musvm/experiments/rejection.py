"""Telling foreign points from points of the classes, on MNIST.

    python -m musvm.experiments.rejection --data DIR --out DIR [--partitions N]

The classes are the digits 0-4, 20 training images each. The universum are 500 images of the digits
5-7. Foreign are the digits 8 and 9, which no model has seen. All parameters are chosen by 5-fold
cross-validation on the training images, for the error of the classification; no foreign image and
no test image takes part. Every model has a score, high for points of the classes:

    UniversumSVC                 spread of the decision values
    Crammer-Singer               the same, fitted without the universum
    SVC                          largest of the one-versus-rest decision values, and their spread
    logistic regression          largest probability
    SVC, six classes             largest decision value minus that of the sixth, the universum
    logistic regression, six     1 minus the probability of the sixth

The three SVMs share the kernel, RBF with gamma = 1 / (number of features * variance). Logistic
regression is linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from musvm import RejectingClassifier
from musvm._input.tensors import FloatArray
from musvm._progress import Progress
from musvm.datasets import load_mnist
from musvm.experiments._command import read_options, write
from musvm.experiments._task import OwnStudy
from musvm.experiments.data import Data, Partition
from musvm.experiments.protocol import Cell, choose, make_partition, model_family
from musvm.experiments.settings import C_GRID, FOLDS, Setting, Universum
from musvm.experiments.tables import as_markdown, difference, paired
from musvm.kernels import resolve_gamma

PARTITIONS = 20
TARGET = 0.95
REJECTED = -1
FOREIGN = (8, 9)
SIZES: dict[str, Any] = {"n_train": 20, "n_test": 500, "m": 500}  # m in all, the others a class
COLUMNS = (
    "AUROC (%)",
    "foreign rejected (%)",
    "accuracy of the accepted (%)",
    "accepted, threshold by CV (%)",
    "foreign rejected, threshold by CV (%)",
    "accuracy of all (%)",
)

PAGE = """\
# Rejecting foreign points

MNIST: the classes are the digits 0-4, {n_train} training images each; the universum are {m} images
of the digits 5-7; foreign are the digits 8 and 9, which no model has seen. Parameters are chosen
on the training images, for the error of the classification. Made by
`python -m musvm.experiments.rejection`.

The SVMs share an RBF kernel, logistic regression is linear. Scores: the spread of the decision
values for UniversumSVC and Crammer-Singer, the largest probability for logistic regression. With
six classes the universum is the sixth, and the score is one minus its probability, or how far its
decision value lies below the largest of the others.

Mean over {n} random partitions, {n_test} test images of each class and {n_foreign} foreign ones:

{table}
The second and third column hold where {target:.0%} of the test images of the classes are accepted.
The next two are those of {{class}}`musvm.RejectingClassifier`, which sets the threshold by
cross-validation on the training images. *Accuracy of all* is that of the classifier without
rejection.

UniversumSVC minus each of the others in the same partition, mean ± standard error:

{differences}
"""


class UniversumAsClass(ClassifierMixin, BaseEstimator):
    """A classifier that takes the universum for one more class, and predicts one of the others."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: FloatArray, y: Any, universum: FloatArray) -> UniversumAsClass:
        self.estimator_ = clone(self.estimator).fit(*with_class(X, y, universum))
        self.classes_ = self.estimator_.classes_[:-1]
        return self

    def _values(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values of the classes, and of the universum."""
        has_probabilities = hasattr(self.estimator_, "predict_proba")
        method = "predict_proba" if has_probabilities else "decision_function"
        values = getattr(self.estimator_, method)(X)
        return values[:, :-1], values[:, -1]

    def predict(self, X: FloatArray) -> Any:
        return self.classes_[self._values(X)[0].argmax(axis=1)]

    def universum_score(self, X: FloatArray) -> FloatArray:
        own, universum = self._values(X)
        if hasattr(self.estimator_, "predict_proba"):
            return np.asarray(1 - universum)
        return np.asarray(own.max(axis=1) - universum)


def with_class(X: FloatArray, y: Any, universum: FloatArray) -> tuple[FloatArray, Any]:
    """Training points and universum points; the largest label, hence the last, is theirs."""
    extra = np.full(len(universum), y.max() + 1)
    return np.vstack([X, universum]), np.concatenate([y, extra])


@dataclass(frozen=True)
class Entry:
    """A classifier with its score, a method of `RejectingClassifier`."""

    estimator: Any
    method: Any
    takes_universum: bool = False

    def fit(self, part: Partition) -> RejectingClassifier:
        rejecting = RejectingClassifier(
            self.estimator, REJECTED, target=TARGET, method=self.method, cv=FOLDS
        )
        return rejecting.fit(part.X, part.y, part.universum if self.takes_universum else None)


def largest_value(model: Any, X: FloatArray) -> FloatArray:
    return np.asarray(model.decision_function(X).max(axis=1))


def entries(study: OwnStudy, cell: Cell, part: Partition) -> dict[str, Entry]:
    """The competitors, with parameters chosen on the training points."""
    family = model_family(study, cell, part)
    plain, joined = (
        family.fit(judged, part.X, part.y, part.universum)
        for judged in choose(study, family, part).values()
    )
    svc, regression = SVC(gamma=study.setting.gamma), LogisticRegression(max_iter=10_000)
    five = {
        name: _search(model, part.X, part.y)
        for name, model in {"svc": svc, "lr": regression}.items()
    }
    six = {
        name: UniversumAsClass(_search(model, *with_class(part.X, part.y, part.universum)))
        for name, model in {"svc": svc, "lr": regression}.items()
    }
    return {
        "UniversumSVC": Entry(clone(joined), "universum_score", takes_universum=True),
        "Crammer-Singer": Entry(clone(plain), "universum_score"),
        "SVC, largest value": Entry(five["svc"], largest_value),
        "SVC, spread": Entry(five["svc"], "decision_function"),
        "SVC, six classes": Entry(six["svc"], "universum_score", takes_universum=True),
        "logistic regression": Entry(five["lr"], "predict_proba"),
        "logistic regression, six classes": Entry(
            six["lr"], "universum_score", takes_universum=True
        ),
    }


def _search(estimator: Any, X: FloatArray, y: Any) -> Any:
    """The estimator with the C of the smallest error; the smallest of several."""
    search = GridSearchCV(estimator, {"C": C_GRID}, cv=FOLDS, refit=False).fit(X, y)
    return clone(estimator).set_params(**search.cv_results_["params"][search.best_index_])


def judge(entry: Entry, part: Partition, foreign: FloatArray) -> list[float]:
    """The columns of the table, as shares."""
    rejecting = entry.fit(part)
    own, other = rejecting.score_samples(part.X_test), rejecting.score_samples(foreign)
    right = rejecting.estimator_.predict(part.X_test) == part.y_test
    threshold = np.quantile(own, 1 - TARGET)
    is_own = np.repeat([1, 0], [len(own), len(other)])
    return [
        float(roc_auc_score(is_own, np.concatenate([own, other]))),
        float(np.mean(other < threshold)),
        float(right[own >= threshold].mean()),
        float(np.mean(own >= rejecting.threshold_)),
        float(np.mean(other < rejecting.threshold_)),
        float(right.mean()),
    ]


def run(data: Data, foreign: FloatArray, n_partitions: int) -> dict[str, FloatArray]:
    """(partition, column) per cent for every competitor."""
    study = OwnStudy(
        own=Setting(
            classes=(0, 1, 2, 3, 4),
            **SIZES,
            sizes=(),
            kernel="rbf",
            gamma=resolve_gamma("scale", data.X, np.ones(len(data.X))),
            universa=(Universum("5-7", (5, 6, 7)),),
            what="MNIST",
        )
    )
    outcomes: dict[str, list[list[float]]] = {}
    with Progress("partitions", n_partitions) as progress:
        for number in range(n_partitions):
            cell = Cell(number, "5-7", study.setting.m, "cv")
            part = make_partition(data, study, cell)
            for name, entry in entries(study, cell, part).items():
                outcomes.setdefault(name, []).append(judge(entry, part, foreign))
            progress.update(1)
    return {name: 100 * np.array(rows) for name, rows in outcomes.items()}


def as_page(outcomes: dict[str, FloatArray], n_foreign: int) -> str:
    """The page, with every number computed here."""
    ours, *others = outcomes
    table = [
        [name, *(f"{value:.1f}" for value in rows.mean(axis=0))] for name, rows in outcomes.items()
    ]
    differences = [
        [
            name,
            *(
                difference(paired(outcomes[ours][:, column], outcomes[name][:, column]))
                for column in range(len(COLUMNS))
            ),
        ]
        for name in others
    ]
    return PAGE.format(
        n=len(outcomes[ours]),
        n_train=SIZES["n_train"],
        n_test=SIZES["n_test"],
        m=SIZES["m"],
        n_foreign=n_foreign,
        target=TARGET,
        table=as_markdown(["model, score", *COLUMNS], table),
        differences=as_markdown([f"{ours} minus", *COLUMNS], differences),
    )


def main() -> None:
    options = read_options(__doc__, PARTITIONS)
    folder: Path = options.data / "mnist"
    digits: Any = load_mnist(folder)
    foreign: Any = load_mnist(folder, subset="test", classes=FOREIGN)
    outcomes = run(Data(digits.data, digits.target, None), foreign.data, options.partitions)
    write(options.out / "rejection.md", as_page(outcomes, len(foreign.data)))


if __name__ == "__main__":
    main()
