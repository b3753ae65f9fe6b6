"""The models of a report: the plain SVM, the MU-SVM, and MU-SVMs along a path of Delta.

All are solutions of the dual problem of `musvm.dual` on the same rows, with the C, kernel and
weights of the model that the report is about. They differ in which rows have a positive cap (the
plain SVM has no universum) and in Delta. The Gram matrix is computed once; each model of the path
starts from its neighbour.

A model is described by its projections (`musvm.projections`) and its certificate. With a positive
semi-definite kernel, a predicted label that leads by more than the gap can explain
(`musvm.model.is_certified`) is *certified*: the exact optimum gives it too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from musvm._input import reading
from musvm._input.blocks import merge
from musvm._input.tensors import FloatArray, IntArray
from musvm._input.weights import row_caps
from musvm._lazy import lazy
from musvm._sklearn import safe_indexing
from musvm.dual.decisions import leads, spread
from musvm.dual.problem import DualProblem
from musvm.dual.solution import Certificate, DualSolution
from musvm.estimator import UniversumSVC
from musvm.kernels import is_positive_semidefinite
from musvm.loo.evaluate import evaluate
from musvm.model import OtherDataError, dual_rows, is_certified
from musvm.projections import Projections
from musvm.solvers.gram import solve
from musvm.universum.diagnosis import Diagnosis, Measures, UniversumDiagnosis
from musvm.universum.nuisance import nuisance_of

# Up to so many training points every one is left out for certain, not by an estimate, which errs
# where support vectors depend on each other.
MOST_EXACT = 200
# Left-out decision values are then known within this, in units of the margin.
MAX_RADIUS = 0.01


@dataclass(frozen=True)
class Described:
    """What the report says of one model.

    Attributes
    ----------
    delta : Delta, or None for the plain SVM
    projections : of all training and universum rows
    spread : (m,) highest minus lowest decision value of every universum row
    left_out : (n, L) decision values of the training rows when left out; equal rows are left out
        together
    n_wrong : training points that are misclassified
    n_training_sv, n_universum_sv : support vectors among the rows
    certificate : primal objective and duality gap, and whether that is as small as was asked for
    tol : the relative gap that was asked for
    certified_training, certified_universum : rows whose predicted label is certified; None where
        the kernel is not positive semi-definite
    """

    delta: float | None
    projections: Projections
    spread: FloatArray
    left_out: FloatArray
    n_wrong: int
    n_training_sv: int
    n_universum_sv: int
    certificate: Certificate
    tol: float
    certified_training: int | None
    certified_universum: int | None

    @property
    def training_error(self) -> float:
        return self.n_wrong / len(self.projections.codes)

    @property
    def left_out_labels(self) -> IntArray:
        """(n,) index of the class that every training point is given when it is left out."""
        return self.left_out.argmax(axis=1)

    @property
    def left_out_error(self) -> float:
        return float(np.mean(self.left_out_labels != self.projections.codes))

    @lazy
    def measures(self) -> Measures | None:
        """Spread and labels of the universum in numbers, if there is one."""
        return Measures.of(self.projections) if len(self.projections.universum) else None


@dataclass(frozen=True)
class Fit:
    """A fitted estimator with the data of its fit, and which rows of the family these are."""

    estimator: UniversumSVC
    X: Any
    y: Any
    universum: Any
    sample_weight: Any
    rows: Any = None


class Family:
    """All models that share the data, C, kernel and weights of a fitted `UniversumSVC`.

    Where the model makes no use of the universum, `universum_weight` and `delta` are those of the
    MU-SVM that it is compared with; otherwise the model's own count.
    """

    def __init__(
        self,
        given: Fit,
        *,
        universum_weight: float | str = "balanced",
        delta: float = 0.0,
    ) -> None:
        model = given.estimator
        self.model, self.given = model, given
        self.data = reading.read(
            model, given.X, given.y, given.universum, given.sample_weight, reset=False
        )
        self.has_universum = not bool(self.data.is_training.all())
        self._saw_universum = self._require_data_of_the_fit()
        self.model_is_plain = not (self._saw_universum and model.universum_weight != 0)
        self.delta = delta if self.model_is_plain else model.delta
        self.universum_weight = universum_weight if self.model_is_plain else model.universum_weight
        self.caps = row_caps(self.data, model.C, model.class_weight, self.universum_weight)
        # Every row takes part in evaluation, whatever its cap.
        self.blocks = merge(
            self.data, np.ones(len(self.caps)), equal_rows=model.kernel != "precomputed"
        )

    @property
    def universum_parts(self) -> list[int]:
        """Number of points of each array that the universum consists of."""
        parts = reading.universum_parts(self.given.universum)
        return [len(part) if isinstance(part, list) else part.shape[0] for part in parts]

    def _require_data_of_the_fit(self) -> bool:
        """Refuse other data than the model's own; tell whether its fit had the universum."""
        data, model = self.data, self.model
        seen = next((d for d in (data, data.of_X) if model.model_.is_of(d)), None)
        if seen is None:
            raise OtherDataError(
                "The report needs the data that the model was fitted on",
                model.model_.difference_from(data),
            )
        caps = row_caps(seen, model.C, model.class_weight, model.universum_weight)
        if not np.allclose(caps, model.model_.caps, rtol=1e-9, atol=0.0):
            raise ValueError(
                "The model was fitted with other sample weights: pass the same sample_weight."
            )
        return seen is data and self.has_universum

    @property
    def method(self) -> str:
        """What judges points left out, by its name in `loo_error`."""
        return "loo" if self.data.is_training.sum() <= MOST_EXACT else "loo-estimate"

    @lazy
    def gram(self) -> FloatArray:
        """The Gram matrix of all blocks, training blocks first."""
        kernel = self.model.model_.kernel
        return kernel.gram(self.data.X, self.blocks.rows, resolution=self.data.resolution)

    @lazy
    def is_convex(self) -> bool:
        """Whether the kernel is positive semi-definite, so that a gap certifies the optimum."""
        kernel = self.model.model_.kernel
        return kernel.is_psd_by_construction or is_positive_semidefinite(
            self.gram, resolution=self.data.resolution
        )

    # -----------------------------------------------------------------------------------------
    # Models

    @lazy
    def plain_fit(self) -> Fit:
        """The plain SVM: the model itself if it is one, or a fit to the training rows alone."""
        given, training = self.given, np.flatnonzero(self.data.is_training)
        if self.model_is_plain:
            universum = given.universum if self._saw_universum else None
            return replace(given, universum=universum, rows=np.arange(len(self.model.model_.caps)))
        precomputed = self.model.kernel == "precomputed"
        alone = replace(
            given,
            estimator=clone(self.model).set_params(universum_label=None),
            X=np.asarray(given.X)[np.ix_(training, training)]
            if precomputed
            else safe_indexing(given.X, training),
            y=self.data.classes[self.data.codes[training]],
            universum=None,
            sample_weight=None
            if given.sample_weight is None
            else np.asarray(given.sample_weight)[training],
            rows=training,
        )
        return _fitted(alone)

    @lazy
    def universum_fit(self) -> Fit:
        """The MU-SVM: the model itself if it is one, or a fit with the universum."""
        whole = replace(self.given, rows=np.arange(len(self.caps)))
        if not self.model_is_plain:
            return whole
        estimator = clone(self.model).set_params(
            delta=self.delta, universum_weight=self.universum_weight
        )
        return _fitted(replace(whole, estimator=estimator))

    def plain(self) -> Described:
        """The plain SVM."""
        caps = np.where(self.data.is_training, self.caps, 0.0)
        return self._describe(None, caps, self._alpha(self.plain_fit))

    def diagnosis(self, plain: Described) -> list[UniversumDiagnosis]:
        """What the plain SVM says about the universum; then of each part, the best first."""
        everything = np.arange(len(plain.projections.universum))
        whole = self._diagnosis_of("universum", plain.projections, everything)
        ends = np.cumsum(self.universum_parts)
        if len(ends) < 2:
            return [whole]
        parts = enumerate(np.split(everything, ends[:-1]), start=1)
        return [
            whole,
            *Diagnosis([self._diagnosis_of(f"part {k}", plain.projections, p) for k, p in parts]),
        ]

    def _diagnosis_of(
        self, name: str, projections: Projections, part: IntArray
    ) -> UniversumDiagnosis:
        """The same for some of the universum points."""
        row, training = self.blocks.block_of_row, self.data.is_training
        points, others = row[training], row[~training][part]
        rho = nuisance_of(
            self.gram[np.ix_(points, points)], self.gram[np.ix_(others, points)], projections.codes
        )
        chosen = replace(projections, universum=projections.universum[part])
        return UniversumDiagnosis.of(name, chosen, rho)

    def path(self, deltas: Iterable[float]) -> Iterator[Described]:
        """The MU-SVM for each Delta, its own among them, each from the one before."""
        own = start = self._alpha(self.universum_fit)
        for delta in deltas:
            start = own if delta == self.delta else self._solve(delta, start)
            yield self._describe(delta, self.caps, start)

    def _solve(self, delta: float, start: FloatArray) -> FloatArray:
        """(B, L) dual variables of the MU-SVM with this Delta."""
        problem, used = self._problem(self.caps, delta)
        alpha = np.zeros_like(start)
        alpha[used] = solve(
            problem, tol=self.model.tol, max_iter=self.model.max_iter, alpha=start[used]
        ).alpha
        return alpha

    def _alpha(self, fit: Fit) -> FloatArray:
        """(B, L) dual variables of the blocks, from those of the rows of a fit."""
        of_rows = np.zeros((len(self.caps), len(self.data.classes)))
        of_rows[fit.rows] = fit.estimator.model_.alpha
        return np.column_stack([self.blocks.total(column) for column in of_rows.T])

    def _problem(self, caps: FloatArray, delta: float | None) -> tuple[DualProblem, IntArray]:
        """The dual problem of the blocks with a positive cap, and which blocks these are."""
        rows, used = dual_rows(
            self.blocks,
            len(self.data.classes),
            caps,
            delta=delta or 0.0,
            universum_loss=self.model.universum_loss,
        )
        whole = len(used) == len(self.gram)
        gram = self.gram if whole else np.ascontiguousarray(self.gram[np.ix_(used, used)])
        return DualProblem(gram, rows), used

    def _describe(self, delta: float | None, caps: FloatArray, alpha: FloatArray) -> Described:
        """The model with dual variables `alpha`, (B, L), in numbers."""
        problem, used = self._problem(caps, delta)
        F = self.gram[:, used] @ alpha[used]
        solution = DualSolution.certified(problem.rows, alpha[used], F[used], tol=self.model.tol)
        row, training = self.blocks.block_of_row, self.data.is_training
        left_out = F.copy()
        with _quiet():
            judged = evaluate(problem, solution, self.method, max_radius=MAX_RADIUS)
        left_out[used[: problem.rows.n_train]] = judged.decision_values
        codes, lead = self.data.codes[training], leads(F)
        is_sv = (np.any(alpha != 0.0, axis=1)[row]) & (caps > 0)
        certified = None
        if self.is_convex:
            certified = is_certified(lead.max(axis=1), solution.gap, self.gram.diagonal())[row]
        return Described(
            delta=delta,
            projections=Projections(
                classes=self.data.classes,
                codes=codes,
                training=lead[row[training], codes],
                universum=lead[row[~training]],
            ),
            spread=spread(F)[row[~training]],
            left_out=left_out[row[training]],
            n_wrong=int(np.sum(F[row[training]].argmax(axis=1) != codes)),
            n_training_sv=int(is_sv[training].sum()),
            n_universum_sv=int(is_sv[~training].sum()),
            certificate=solution,
            tol=float(self.model.tol),
            certified_training=None if certified is None else int(certified[training].sum()),
            certified_universum=None if certified is None else int(certified[~training].sum()),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that the report itself turns into sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", r"\d+ of \d+ universum rows are rows of X")
        warnings.filterwarnings("ignore", "The kernel matrix is not positive semi-definite")
        yield


def _fitted(fit: Fit) -> Fit:
    """The same with its estimator fitted."""
    with _quiet():
        fit.estimator.set_params(verbose=0).fit(
            fit.X, fit.y, universum=fit.universum, sample_weight=fit.sample_weight
        )
    return fit
