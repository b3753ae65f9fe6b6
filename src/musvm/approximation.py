"""What a kernel of low rank costs: where the optimum of the exact one must be.

Nystroem's method maps points to a few hundred features z(x), and the linear machine on these is
the machine of the kernel k'(x, x') = <z(x), z(x')>. Its duality gap certifies the optimum of this
*approximate* problem. With K' and K the two kernel matrices, of a positive semi-definite kernel,

    E = K - K'  is positive semi-definite,    D(alpha) = D'(alpha) + 1/2 <alpha, E alpha>,

since K' is a projection of K, and no constraint of the dual depends on the kernel. So D is nowhere
below D', and the dual variables alpha' of the approximate solution are feasible for both. Between
its objective P' and its gap that leaves the exact optimum P* no other place than

    P' - gap' - 1/2 <alpha', E alpha'>   <=   P*   <=   P'.

The last term is the cost of the approximation, at most. Only support vectors have a share in it.

Of a function it is not known whether it is such a kernel, and features may have lost their digits,
in single precision above all. Where the cost, or k(x, x) - k'(x, x) of a support vector, is
negative by more than rounding, E is not positive semi-definite, and nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from musvm._input import reading
from musvm._input.tensors import FloatArray
from musvm._sklearn import safe_indexing
from musvm.estimator import UniversumSVC
from musvm.kernels import PIECE_ENTRIES

# Features of the same points, computed twice, differ by rounding alone.
_SAME = 1e-6
# Relative to what the terms of the cost could add up to, more than their rounding: in random
# problems that was 1e-13 at most.
_ROUNDING_OF_COST = float(np.finfo(np.float64).eps) ** 0.75
# Features in doubles overstated k(x, x) by 5e-8 of it at most there.
_OVERSTATED = 1e-6


@dataclass(frozen=True)
class ApproximationCost:
    """What `approximation_cost` found.

    Attributes
    ----------
    objective : float
        Of the model, P': no less than the optimum of the exact kernel.
    lower_bound : float
        The optimum of the exact kernel is no less than this.
    cost : float
        The share of the approximation in the difference, 1/2 <alpha, E alpha>; the rest is the
        duality gap.
    residual : float
        Share of the trace of the kernel matrix, over the support vectors, that the features leave
        out: 0 where they hold the whole kernel.
    """

    objective: float
    lower_bound: float
    cost: float
    residual: float

    @property
    def relative(self) -> float:
        """How far the objective may be from the exact optimum, relative to the objective."""
        return (self.objective - self.lower_bound) / self.objective


def approximation_cost(pipeline: Any, X: Any, universum: Any = None) -> ApproximationCost:
    """Bound the optimum of the exact kernel from a fit with Nystroem's features.

    The bounds are those of a positive semi-definite kernel. Others are refused; a function where
    its values on the support vectors show that it is none.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted; its last two steps are a :class:`sklearn.kernel_approximation.Nystroem` and a
        :class:`UniversumSVC` with a linear kernel, as :func:`make_universum_pipeline` makes it.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The training points of its fit, as the first step takes them.

    universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of such \
arrays, default=None
        The universum of its fit, if it had one; with ``universum_weight=0`` it may be left out.

    Returns
    -------
    cost : ApproximationCost
        The bounds, and what share of the kernel the features leave out.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from musvm import UniversumSVC, approximation_cost, make_universum_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= 16
    >>> X, y, U = X[y < 5][:500], y[y < 5][:500], X[y >= 5][:500]
    >>> features = Nystroem(gamma=0.05, n_components=300, random_state=0)
    >>> model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    >>> found = approximation_cost(model.fit(X, y, universum=U), X, universum=U)
    >>> exact = UniversumSVC(gamma=0.05, delta=0.1, tol=1e-6).fit(X, y, universum=U)
    >>> bool(found.lower_bound <= exact.objective_ <= found.objective)
    True
    """
    features, model = _last_steps(pipeline)
    points = _support_points(pipeline, X, universum)
    cost, residual = _residual(features, model, points)
    lower_bound = model.objective_ - model.dual_gap_ - cost
    return ApproximationCost(model.objective_, lower_bound, cost, residual)


def _last_steps(pipeline: Any) -> tuple[Nystroem, UniversumSVC]:
    steps = [step for _, step in getattr(pipeline, "steps", [])][-2:]
    if [type(step) for step in steps] != [Nystroem, UniversumSVC] or steps[1].kernel != "linear":
        raise ValueError(
            "approximation_cost needs a pipeline that ends with Nystroem and "
            "UniversumSVC(kernel='linear')."
        )
    check_is_fitted(steps[1])
    if steps[0].kernel == "precomputed":
        raise ValueError("approximation_cost needs a kernel that is not precomputed.")
    _require_semidefinite(steps[0])
    return steps[0], steps[1]


def _require_semidefinite(features: Nystroem) -> None:
    """Refuse kernels that are not positive semi-definite by construction, but for functions."""
    name, options = features.kernel, _kernel_options(features)
    indefinite, words = name in ("sigmoid", "additive_chi2"), f"kernel={name!r}"
    if name in ("poly", "polynomial"):
        coef0, degree = options.get("coef0", 1), options.get("degree", 3)
        indefinite = coef0 < 0 or degree % 1 != 0
        words += f" with coef0={coef0:g} and degree={degree:g}"
    if indefinite:
        raise ValueError(f"approximation_cost needs a positive semi-definite kernel, not {words}.")


def _support_points(pipeline: Any, X: Any, universum: Any) -> Any:
    """The support vectors as Nystroem takes them, doubles or CSR, in the order of the model's."""
    features, model = pipeline[-2], pipeline[-1]
    fitted, Z = model.model_, model.support_vectors_
    # With weight 0 the fit has ignored a universum, and so it may be absent.
    parts = [X, *(reading.parts_as_given(universum) if model.universum_weight != 0 else [])]
    lengths = [reading.n_rows(part) for part in parts]
    expected = len(fitted.caps), fitted.universum_start or len(fitted.caps)
    same = (sum(lengths), lengths[0]) == expected
    found, start = [], 0
    for part, length in zip(parts, lengths, strict=True):
        here = np.flatnonzero((fitted.support >= start) & (fitted.support < start + length))
        if same and len(here):
            rows = safe_indexing(_before_features(pipeline, part), fitted.support[here] - start)
            same = np.allclose(features.transform(rows), Z[here], atol=_SAME)
            found.append(rows)
        start += length
    if not same:
        raise ValueError("These are not the data that the pipeline was fitted to.")
    return _stacked(found)


def _before_features(pipeline: Any, part: Any) -> Any:
    """What the steps before Nystroem make of points in any form that the first of them takes."""
    for _, step in pipeline.steps[:-2]:
        part = part if step in (None, "passthrough") else step.transform(part)
    return part.tocsr() if sp.issparse(part) else part


def _stacked(parts: list[Any]) -> Any:
    """Points on top of each other, as doubles: CSR if all of them are sparse."""
    if all(map(sp.issparse, parts)):
        return sp.vstack(parts, format="csr", dtype=np.float64)
    dense = [part.toarray() if sp.issparse(part) else part for part in parts]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in dense])


def _residual(features: Nystroem, model: UniversumSVC, points: Any) -> tuple[float, float]:
    """1/2 <alpha, E alpha>, and the share of E in the trace of K, over the support vectors."""
    Z, alpha = model.support_vectors_, model.dual_coef_.T
    cost, lost, diagonal = 0.0, np.empty(len(Z)), np.empty(len(Z))
    n_rows = max(PIECE_ENTRIES // max(len(Z), 1), 1)
    for start in range(0, len(Z), n_rows):
        part = slice(start, start + n_rows)
        K = _exact_kernel(features, points[part], points)
        E = K - Z[part] @ Z.T
        cost += 0.5 * float(np.sum(alpha[part] * (E @ alpha)))
        lost[part], diagonal[part] = E[:, part].diagonal(), K[:, part].diagonal()
    sizes = np.abs(diagonal)
    at_most = 0.5 * float(np.sum(np.square(np.sqrt(sizes) @ np.abs(alpha))))
    if cost < -_ROUNDING_OF_COST * at_most or lost.min() < -_OVERSTATED * sizes.max():
        raise ValueError(
            "The features overstate the kernel on the support vectors, so that nothing can be said "
            "of its optimum: choose a positive semi-definite kernel, pass doubles, or lower "
            "n_components."
        )
    trace = float(diagonal.sum())
    return max(cost, 0.0), max(float(lost.sum()) / trace, 0.0) if trace else 0.0


def _exact_kernel(features: Nystroem, X: Any, Z: Any) -> FloatArray:
    options = _kernel_options(features)
    K: FloatArray = pairwise_kernels(X, Z, metric=features.kernel, filter_params=True, **options)
    return K


def _kernel_options(features: Nystroem) -> dict[str, Any]:
    given = {name: getattr(features, name) for name in ("gamma", "degree", "coef0")}
    return dict(features.kernel_params or {}) | {
        name: value for name, value in given.items() if value is not None
    }
