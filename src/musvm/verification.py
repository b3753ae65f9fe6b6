"""Certificates checked from outside: P, D, feasibility and gap, from a model and its data.

`verify` takes nothing from the solver but the dual variables. With f_i = sum_j k(x_i, x_j) alpha_j
over all rows of the fit it recomputes

    D = 1/2 sum_i <alpha_i, f_i> - sum_{i <= n} alpha_i,y_i + Delta sum_{j > n} sum_l (alpha_jl)_+
    P = 1/2 sum_i <alpha_i, f_i> + sum_{i <= n} C_i hinge_i + sum_{j > n} C*_j loss_j

with the losses of eq. (1) and of eq. (2) ("max") or eq. (4) ("sum") written out, and the rows of
alpha held against their constraints,

    sum_l alpha_il = 0,    alpha_il <= C_i [l = y_i]    (training)
    sum_l alpha_jl = 0,    alpha_jl <= C*_j  ("sum"),    1/2 ||alpha_j||_1 <= C*_j  ("max").

What the fit was asked for is P + D relative to min(|P|, P(0) - P), where P(0) is the sum of C_i
over i <= n; relative to |P| where P + D is below 1e-15 P(0), or where even the optimum gains
less than 1e-9 P(0).

Sums are those of `numpy.longdouble`, 64 bits of mantissa where the platform has them. Kernels with
a formula are computed in it as well, distances from differences of coordinates. This is slow, some
10^7 products a second, and shares no code with the solvers, which is the point of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from musvm._input import reading, tensors
from musvm._input.reading import FitData
from musvm._messages import Tabulated, instead_of
from musvm.estimator import UniversumSVC
from musvm.kernels import Kernel
from musvm.model import FittedModel, OtherDataError

# Entries of the largest array of differences or products that is made at a time.
_CHUNK = 2**22
# A constraint that is missed by less, relative to the cap, is met: alpha is stored in doubles.
FEASIBLE = 1e-9
# A gap that is nothing but rounding, relative to P.
ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class Verification(Tabulated):
    """What `verify` found; printed as a table of what was recomputed beside what is claimed.

    Attributes
    ----------
    primal : float
        P, recomputed.
    dual : float
        D, recomputed, as it is minimised: -P at the optimum.
    gap : float
        P + D, recomputed: no other model has an objective below P by more than this.
    relative_gap : float
        The gap relative to P or, where that is less, to what the model gains over one that knows
        nothing: what `tol` bounds.
    infeasibility : float
        The largest violation of a constraint by a row of dual variables, relative to its cap.
    claimed_primal, claimed_gap, claimed_relative_gap : float
        What the model says itself: `objective_`, `dual_gap_` and the gap that it stopped at.
    tol : float
        The relative gap that the fit was asked for.
    converged : bool
        Whether the fit says that it reached `tol`.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    infeasibility: float
    claimed_primal: float
    claimed_gap: float
    claimed_relative_gap: float
    tol: float
    converged: bool

    def _rows(self) -> list[list[str]]:
        claimed = self.claimed_relative_gap
        return [
            ["", "recomputed", "claimed"],
            ["objective", f"{self.primal:.6g}", f"{self.claimed_primal:.6g}"],
            ["duality gap", f"{self.gap:.2e}", f"{self.claimed_gap:.2e}"],
            ["relative gap", f"{self.relative_gap:.2e}", f"{claimed:.2e}"],
            ["infeasibility", f"{self.infeasibility:.1e}", "0"],
        ]

    def _sentences(self) -> list[str]:
        asked = f"The fit was asked for a relative gap of {self.tol:g}"
        reached = "and says that it got there" if self.converged else "and says that it fell short"
        verdict = "The certificate holds." if self.holds else "The certificate is WRONG."
        return [f"{asked} {reached}. {verdict}"]

    @property
    def feasible(self) -> bool:
        """Whether the dual variables meet their constraints, to rounding."""
        return self.infeasibility <= FEASIBLE

    @property
    def holds(self) -> bool:
        """Whether the certificate is true: feasible, and converged only if the gap is at `tol`.

        A gap is a difference of larger numbers, which the fit has in doubles: it may miss `tol`
        by a tenth, and by what rounding leaves of P.
        """
        is_rounding = self.gap <= ROUNDING * abs(self.primal)
        return self.feasible and (
            not self.converged or is_rounding or self.relative_gap <= 1.1 * self.tol
        )


def verify(model: Any, X: Any, y: Any, universum: Any = None) -> Verification:
    """Recompute the certificate of a fitted model from its data, in extended precision.

    Parameters
    ----------
    model : UniversumSVC
        The model, fitted.

    X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
        The points of the fit. The weights that the rows had are kept with the model.

    y : array-like of shape (n_samples,)
        Their labels.

    universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of \
such arrays, default=None
        The universum of the fit.

    Returns
    -------
    found : Verification
        Objectives, gap and feasibility as recomputed, next to what the model claims.
        ``found.holds`` says whether the two agree.

    Raises
    ------
    ValueError
        If the data are not those of the fit.

    Examples
    --------
    >>> import musvm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = musvm.UniversumSVC(C=10).fit(X, y)
    >>> found = musvm.verify(model, X, y)
    >>> found.holds
    True
    >>> bool(found.gap <= model.tol * found.primal)
    True
    """
    check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, UniversumSVC):
        raise TypeError(
            f"verify needs a fitted UniversumSVC or UniversumSVCCV, got {type(model).__name__}. "
            + instead_of(model)
        )
    fitted: FittedModel = model.model_
    on_host = map(tensors.to_host, (X, y, universum, None))
    data = reading.read(model, *on_host, reset=False)
    if model.universum_weight == 0:  # the fit has ignored a universum, and so it may be absent
        data = data.of_X
    if not fitted.is_of(data):
        raise OtherDataError(
            "The data differ from those that the model was fitted on",
            fitted.difference_from(data),
        )
    rows = fitted.rows_of(data)
    alpha = fitted.alpha[rows].astype(np.longdouble)
    codes, caps = data.codes[rows], fitted.caps[rows].astype(np.longdouble)
    F = _decision_values(fitted, data, rows)
    square = np.sum(alpha * F, dtype=np.longdouble)
    losses = _losses(F, codes, fitted)
    costs = _costs(alpha, codes, fitted)
    primal = square / 2 + np.sum(caps * losses)
    dual = square / 2 + np.sum(costs)
    at_zero = np.sum(caps[codes != reading.UNIVERSUM])
    rounding = _rounding(fitted, data, rows, caps)
    gap = np.sum(caps * losses + np.sum(alpha * F, axis=1) + costs)
    return Verification(
        primal=float(primal),
        dual=float(dual),
        gap=float(gap),
        relative_gap=float(_relative(gap, primal, at_zero, rounding)),
        infeasibility=_infeasibility(alpha, codes, caps, fitted),
        claimed_primal=fitted.certificate.primal,
        claimed_gap=fitted.certificate.gap,
        claimed_relative_gap=fitted.certificate.relative_gap,
        tol=float(model.tol),
        converged=bool(fitted.certificate.converged),
    )


def _relative(gap: Any, primal: Any, at_zero: Any, rounding: Any) -> Any:
    """The gap relative to what the model is worth; `at_zero` is P of weights that are zero.

    Whether even the optimum gains nothing is known up to rounding, which a fit in doubles has.
    """
    if gap <= 1e-15 * at_zero or at_zero - primal + gap <= 1e-9 * at_zero + rounding:
        return gap / abs(primal) if primal else gap
    of_model = min(abs(primal), at_zero - primal)
    return gap / of_model if of_model > 0 else np.inf


def _rounding(fitted: FittedModel, data: FitData, rows: Any, caps: Any) -> Any:
    """About what kernels in doubles leave of P + D, from k(x, x) = s_i^2.

    f_i is known up to eps s_i (sum_j s_j^2 |alpha_j|^2)^1/2, and a loss changes by twice that.
    """
    is_matrix = fitted.kernel.is_precomputed
    diagonal = data.X[rows, rows] if is_matrix else fitted.diagonal(data.X[rows])
    squares = np.abs(np.asarray(diagonal)).astype(np.longdouble)
    of_alpha = np.sqrt(np.sum(squares * np.sum(np.square(fitted.alpha[rows]), axis=1)))
    of_losses = np.sqrt(np.sum(caps * caps * squares))
    return 2.0 * np.finfo(np.float64).eps * of_losses * of_alpha


def _losses(F: NDArray[Any], codes: Any, fitted: FittedModel) -> NDArray[Any]:
    """Hinge loss of training rows, universum loss of the others, (M,)."""
    found = np.empty(len(F), dtype=np.longdouble)
    for i, (values, code) in enumerate(zip(F, codes, strict=True)):
        if code == reading.UNIVERSUM:
            excess = np.maximum(values.max() - values - fitted.delta, 0.0)
            found[i] = excess.max() if fitted.universum_loss == "max" else excess.sum()
        else:
            others = np.delete(values, code)
            found[i] = max(1.0 + others.max() - values[code], np.longdouble(0.0))
    return found


def _costs(alpha: NDArray[Any], codes: Any, fitted: FittedModel) -> NDArray[Any]:
    """What D has beside its square, row by row."""
    rows = np.arange(len(alpha))
    universum = fitted.delta * np.sum(np.maximum(alpha, 0.0), axis=1)
    return np.where(codes == reading.UNIVERSUM, universum, -alpha[rows, codes])


def _infeasibility(alpha: NDArray[Any], codes: Any, caps: Any, fitted: FittedModel) -> float:
    """The largest violation of a constraint, relative to the cap of its row."""
    is_own = codes[:, None] == np.arange(alpha.shape[1])
    above = np.max(alpha - np.where(is_own, caps[:, None], 0.0), axis=1)
    is_universum = codes == reading.UNIVERSUM
    is_max = fitted.universum_loss == "max"
    size = np.sum(np.abs(alpha), axis=1) / 2 if is_max else alpha.max(axis=1)
    above = np.where(is_universum, size - caps, above)
    worst = np.maximum(above, np.abs(np.sum(alpha, axis=1))) / caps
    return float(max(worst.max(), 0.0))


def _decision_values(fitted: FittedModel, data: FitData, rows: Any) -> NDArray[Any]:
    """f(x_i) of these rows of the fit, from the kernel with the support vectors, (M, L)."""
    coefficients = fitted.dual_coef.T.astype(np.longdouble)
    kernel = fitted.kernel
    if kernel.is_precomputed:
        return data.X[np.ix_(rows, fitted.support)].astype(np.longdouble) @ coefficients
    if callable(kernel.name):
        K = np.asarray(kernel.name(data.X[rows], fitted.vectors), dtype=np.longdouble)
        return K @ coefficients
    points = _dense(data.X[rows])
    vectors = _dense(fitted.vectors)
    step = max(_CHUNK // max(vectors.size, 1), 1)
    parts = [_kernel(kernel, points[i : i + step], vectors) for i in range(0, len(points), step)]
    return np.concatenate([part @ coefficients for part in parts])


def _dense(points: Any) -> NDArray[Any]:
    values = points.toarray() if sp.issparse(points) else points
    return np.asarray(values, dtype=np.longdouble)


def _kernel(kernel: Kernel, X: NDArray[Any], Z: NDArray[Any]) -> NDArray[Any]:
    """k(x_i, z_j) by the formula of its name, without matrix products of doubles."""
    if kernel.name == "rbf":
        differences = X[:, None, :] - Z
        values = np.exp(-kernel.gamma * np.sum(differences * differences, axis=2))
    elif kernel.name == "linear":
        values = X @ Z.T
    elif kernel.name == "poly":
        values = (kernel.gamma * (X @ Z.T) + kernel.coef0) ** kernel.degree
    elif kernel.name == "sigmoid":
        values = np.tanh(kernel.gamma * (X @ Z.T) + kernel.coef0)
    else:
        raise NotImplementedError(f"the kernel {kernel.name!r} from outside")
    return values + kernel.constant
