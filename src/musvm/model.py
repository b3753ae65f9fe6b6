"""A fitted model as one object.

With alpha_i the row of the dual solution that belongs to row i of the fit, the model is

    f_l(x) = sum_i alpha_il k(x_i, x),        for the linear kernel  f_l(x) = <w_l, x> + b_l.

The kernel may have a constant, k = k' + 1, and then the intercepts are b_l = sum_i alpha_il.

`FittedModel` holds everything that follows from a fit and nothing else: whoever reads models
(leave-one-out, searches, reports, files) reads its attributes. It can also state its problem again
on the data of its fit, row by row.

Stating a problem: the rows of the dual are blocks of equal rows of the data (`musvm._input.blocks`)
with a positive cap. `dual_rows` finds these for any caps; `state_problem` adds kernel and points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from musvm._input import tensors
from musvm._input.blocks import Blocks
from musvm._input.digests import row_digests
from musvm._input.reading import UNIVERSUM, FitData, in_canonical_form
from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._threads import one_blas_thread
from musvm.dual.problem import DualRows, UniversumLoss
from musvm.dual.solution import Certificate
from musvm.kernels import CHUNK, Kernel, as_doubles
from musvm.solvers.choose import PointProblem


def dual_rows(
    blocks: Blocks,
    n_classes: int,
    row_caps: FloatArray,
    *,
    delta: float = 0.0,
    universum_loss: UniversumLoss = "sum",
) -> tuple[DualRows, IntArray]:
    """The dual without K of the blocks whose rows have these caps, and which blocks have any."""
    caps = blocks.total(row_caps)
    used = np.flatnonzero(caps > 0)
    y = blocks.y[used[used < len(blocks.y)]]
    return DualRows(y, n_classes, caps[used], float(delta), universum_loss), used


def state_problem(
    kernel: Kernel,
    data: FitData,
    blocks: Blocks,
    row_caps: FloatArray,
    *,
    delta: float,
    universum_loss: UniversumLoss,
) -> PointProblem:
    """The problem of a fit: kernel and points, and the dual of all blocks."""
    rows, used = dual_rows(
        blocks, len(data.classes), row_caps, delta=delta, universum_loss=universum_loss
    )
    return PointProblem(kernel, data.X, blocks.rows[used], rows, data.resolution)


# What a fit is given, apart from labels.
PARTS = ("X", "universum")


@dataclass(frozen=True)
class Difference:
    """What distinguishes data from those of a fit.

    Attributes
    ----------
    words : what is different; of a row, what is to be said of it
    part : where: "X", "y" or "universum"; None where that is not known
    row : its row there, counted from 0, if there is a first one
    """

    words: str
    part: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        return self.words if self.row is None else f"row {self.row} of {self.part} {self.words}"


class OtherDataError(ValueError):
    """Data were given that are not those of the fit."""

    def __init__(self, message: str, difference: Difference) -> None:
        super().__init__(f"{message}: {difference}.")
        self.difference = difference


@dataclass(frozen=True, repr=False)
class FittedModel:
    """The model above, with what it was made of and how well.

    Attributes
    ----------
    kernel : with its parameters settled
    classes : (L,) sorted labels
    delta, universum_loss : of its problem
    caps : (M,) cap of every row of the fit: those of X, then those of `universum=`
    support : (S,) rows of the fit that are support vectors, training rows first
    n_training_support : how many of them are training rows
    dual_coef : (L, S) their dual variables
    vectors : (S, d) the support vectors, dense or CSR; (0, 0) for a precomputed kernel
    weights : (L, d) the w_l of a linear kernel, None for others
    universum_start : the row of the fit that is the first of `universum=`; 0 if the universum was
        marked in X
    fingerprint : tells whether other data are those of the fit
    certificate : how well the problem was solved
    """

    kernel: Kernel
    classes: Any
    delta: float
    universum_loss: UniversumLoss
    caps: FloatArray
    support: IntArray
    n_training_support: int
    dual_coef: FloatArray
    vectors: Any
    weights: FloatArray | None
    universum_start: int
    fingerprint: str
    certificate: Certificate

    def __repr__(self) -> str:
        """What it is and how large, without the numbers."""
        n_universum = len(self.support) - self.n_training_support
        return (
            f"FittedModel({self.kernel!r}, {len(self.classes)} classes, {self.n_training_support} "
            f"support vectors of the training points and {n_universum} of the universum)"
        )

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        data: FitData,
        caps: FloatArray,
        alpha: FloatArray,
        certificate: Certificate,
        *,
        delta: float,
        universum_loss: UniversumLoss,
    ) -> FittedModel:
        """The model of dual variables alpha, (M, L), one row for every row of the data.

        A `universum=` whose caps are all zero takes no part, and the model does not depend on it.
        """
        n = data.n_given
        if not caps[n:].any():
            data, caps, alpha = data.of_X, caps[:n], alpha[:n]
        used = np.any(alpha != 0.0, axis=1)
        training = np.flatnonzero(used & data.is_training)
        support = np.concatenate([training, np.flatnonzero(used & ~data.is_training)])
        dual_coef = np.ascontiguousarray(alpha[support].T)
        vectors = np.empty((0, 0)) if kernel.is_precomputed else tensors.take(data.X, support)
        vectors, weights = tensors.to_host(vectors), None
        if kernel.name == "linear":
            # More threads change the last digits, and make OpenBLAS slower on a short side.
            with one_blas_thread():
                weights = dual_coef @ vectors
        return cls(
            kernel=kernel,
            classes=data.classes,
            delta=float(delta),
            universum_loss=universum_loss,
            caps=caps,
            support=support,
            n_training_support=len(training),
            dual_coef=dual_coef,
            vectors=vectors,
            weights=weights,
            # Rows of the universum if it was passed by itself, of X otherwise.
            universum_start=data.n_given if data.n_given < len(caps) else 0,
            fingerprint=data.fingerprint,
            # Of a solution, without its arrays.
            certificate=Certificate(
                certificate.primal,
                certificate.gap,
                certificate.relative_gap,
                certificate.n_rounds,
                certificate.converged,
            ),
        )

    @property
    def training_support(self) -> IntArray:
        """Rows of X that are training points and support vectors."""
        return self.support[: self.n_training_support]

    @property
    def universum_support(self) -> IntArray:
        """Universum points that are support vectors: rows of `universum=`, or of X."""
        return self.support[self.n_training_support :] - self.universum_start

    @property
    def n_support(self) -> IntArray:
        """(L,) training support vectors of each class: the label that has positive mass."""
        own = self.dual_coef[:, : self.n_training_support].argmax(axis=0)
        return np.bincount(own, minlength=len(self.classes))

    @property
    def intercept(self) -> FloatArray:
        """(L,) what the kernel's constant adds to the decision values of every point."""
        totals: FloatArray = self.dual_coef.sum(axis=1)
        return self.kernel.constant * totals

    @property
    def alpha(self) -> FloatArray:
        """(M, L) dual variables of all rows of the fit."""
        alpha = np.zeros((len(self.caps), len(self.classes)))
        alpha[self.support] = self.dual_coef.T
        return alpha

    # -----------------------------------------------------------------------------------------
    # The problem, once more

    def is_of(self, data: FitData) -> bool:
        """Whether the data are those of the fit."""
        return data.fingerprint == self.fingerprint

    def difference_from(self, data: FitData) -> Difference:
        """What distinguishes the data from those of the fit, as far as the model remembers them."""
        if data.classes.tolist() != np.asarray(self.classes).tolist():
            known, found = _few(self.classes), _few(data.classes)
            return Difference(f"its classes are {known}, these are {found}", "y")
        m = len(self.caps) - self.universum_start if self.universum_start else 0
        here = data.n_given, len(data.codes) - data.n_given
        for name, then, now in zip(PARTS, (len(self.caps) - m, m), here, strict=True):
            if then != now:
                return Difference(f"its {name} had {then} rows, this one has {now}", name)
        own = self.dual_coef.argmax(axis=0)
        own[self.n_training_support :] = UNIVERSUM
        wrong = self.support[data.codes[self.support] != own]
        if len(wrong):
            return Difference("is another", "y", int(wrong.min()))
        return self._moved_row(data) or Difference(
            "a row that is no support vector, or its label, is another"
        )

    def _moved_row(self, data: FitData) -> Difference | None:
        """The first support vector that is another point in these data."""
        if self.kernel.is_precomputed:
            return None
        vectors, points = row_digests(self.vectors), data.digests
        wrong = self.support[np.any(vectors != points[self.support], axis=1)]
        if not len(wrong):
            return None
        known = set(map(tuple, points.tolist()))
        if all(tuple(row) in known for row in vectors.tolist()):
            return Difference("the rows are in another order")
        row, start = int(wrong.min()), self.universum_start
        if 0 < start <= row:
            return Difference("has other values", "universum", row - start)
        return Difference("has other values", "X", row)

    def rows_of(self, data: FitData) -> IntArray:
        """The rows of the data that take part, those of positive cap, training rows first."""
        used = self.caps > 0
        return np.concatenate(
            [np.flatnonzero(used & data.is_training), np.flatnonzero(used & ~data.is_training)]
        )

    def problem_on(self, data: FitData) -> PointProblem:
        """The problem on single rows of the data of the fit, `rows_of` them in this order.

        Where the fit merges copies of a row into one block, here each is a row of its own. The
        fitted solution of it is `alpha` of these rows.
        """
        rows = self.rows_of(data)
        codes = data.codes[rows]
        dual = DualRows(
            np.ascontiguousarray(codes[codes != UNIVERSUM]),
            len(self.classes),
            self.caps[rows],
            self.delta,
            self.universum_loss,
        )
        return PointProblem(self.kernel, data.X, rows, dual, data.resolution)

    # -----------------------------------------------------------------------------------------
    # Decision values

    def decision_values(self, X: Any) -> Any:
        """f_l(x), (a, L), of validated points: dense, CSR, or a tensor of doubles, on its device.

        Dense points may be numbers of any type, and mapped to memory: they become doubles piece by
        piece.

        For a precomputed kernel X is the kernel between the points and all rows of the fit.
        """
        if tensors.is_tensor(X):
            return self._on_device(X)
        if sp.issparse(X):
            X = in_canonical_form(X)
        if self.weights is not None:
            return self._linear_values(X, self.weights.T) + self.intercept
        if self.kernel.is_precomputed:
            columns = np.concatenate([self.training_support, self.universum_support])
            with one_blas_thread():
                return X[:, columns] @ self.dual_coef.T
        return self.kernel.weighted(X, self.vectors, self.dual_coef.T)

    def _linear_values(self, X: Any, weights: FloatArray) -> FloatArray:
        # The same digits whatever the number of threads.
        with one_blas_thread():
            if sp.issparse(X):
                return np.asarray(X @ weights)
            step = max(CHUNK // max(X.shape[1], 1), 1)
            pieces = [as_doubles(X[k : k + step]) @ weights for k in range(0, len(X), step)]
            return np.concatenate([np.empty((0, weights.shape[1])), *pieces])

    def diagonal(self, X: Any) -> FloatArray:
        """k(x, x) of validated points, as in `decision_values`; not for a precomputed kernel."""
        if self.kernel.name == "rbf":
            return self.kernel.diagonal(X)
        if sp.issparse(X):
            X = in_canonical_form(X)
        step = max(CHUNK // max(X.shape[1], 1), 1)
        pieces = (as_doubles(X[k : k + step]) for k in range(0, X.shape[0], step))
        return np.concatenate([self.kernel.diagonal(piece) for piece in pieces])

    def radii(self, diagonal: FloatArray) -> FloatArray:
        """How far differences f_k(x) - f_l(x) may be from the exact optimum's, from k(x, x).

        Both P and D grow quadratically with the distance of the weights from the optimal ones, so
        that distance, squared, is at most the gap; for a positive semi-definite kernel.
        """
        return certified_radii(self.certificate.gap, diagonal)

    def _on_device(self, points: Any) -> Any:
        from musvm.solvers.backends.torch_kernel import DeviceKernel, like

        if self.weights is not None:
            return points @ like(points, self.weights.T) + like(points, self.intercept)
        if self.kernel.name not in DeviceKernel.NAMES:
            return like(points, self.decision_values(tensors.to_host(points)))
        Z = like(points, self.vectors.toarray() if sp.issparse(self.vectors) else self.vectors)
        coefficients = like(points, np.ascontiguousarray(self.dual_coef.T))
        values = DeviceKernel(self.kernel, points, Z).weighted(slice(None), coefficients)
        return values + like(points, self.intercept)

    def labels(self, F: Any) -> Any:
        """The classes of the largest values: a tensor for tensors of numbers, else an array."""
        if not tensors.is_tensor(F):
            return self.classes[F.argmax(axis=1)]
        from musvm.solvers.backends.torch_kernel import like

        winners = F.argmax(1)
        if self.classes.dtype.kind in "biuf":
            return like(F, self.classes)[winners]
        return self.classes[tensors.to_host(winners)]


def _few(labels: Any) -> str:
    """The first labels of many, in words."""
    shown = ", ".join(map(repr, np.asarray(labels[:5]).tolist()))
    return f"{shown}, ..." if len(labels) > 5 else shown


def certified_radii(gap: float, diagonal: FloatArray) -> FloatArray:
    """sqrt(2 gap k(x, x)): how far differences of decision values may be from the optimum's."""
    return np.sqrt(2.0 * gap * np.maximum(diagonal, 0.0))


def is_certified(leads: FloatArray, gap: float, diagonal: FloatArray) -> BoolArray:
    """Whether labels that lead by so much are those of the exact optimum too."""
    return leads > certified_radii(gap, diagonal)
