"""`UniversumSVC`: the multiclass universum SVM as a scikit-learn classifier.

The estimator reads what it is given (`_input/`), states the problem and keeps the fitted model
(`model.py`), having had it solved (`solvers/choose.py`). Its attributes are those of that model.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from musvm._input import reading, tensors
from musvm._input.blocks import Blocks, merge
from musvm._input.mistakes import warn_of_universum
from musvm._input.reading import FitData
from musvm._input.streams import starts_anew
from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._input.weights import row_caps
from musvm._messages import warn_user
from musvm._progress import FitProgress
from musvm._sklearn import (
    CallbackSupportMixin,
    FitEvents,
    Interval,
    StrOptions,
    all_or_nothing,
    fit_context,
    safe_indexing,
)
from musvm.dual.decisions import leads, spread
from musvm.dual.problem import UniversumLoss
from musvm.dual.solution import DualSolution
from musvm.kernels import KERNELS_WITH_GAMMA, Kernel, resolve_gamma
from musvm.model import FittedModel, is_certified, state_problem
from musvm.solvers.choose import PointProblem, Solver, solve_beyond_doubt, stays_on_device
from musvm.solvers.shortfall import shortfall

PARAMETER_CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Interval(Real, 0, None, closed="neither")],
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="left")],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "delta": [Interval(Real, 0, None, closed="left")],
    "universum_weight": [StrOptions({"balanced"}), Interval(Real, 0, None, closed="left")],
    "universum_loss": [StrOptions({"sum", "max"})],
    "universum_label": [str, Integral, Real, "boolean", None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "fit_intercept": ["boolean"],
    "solver": [StrOptions({"auto", "gram", "working-set", "linear", "interior"})],
    "cache_size": [Interval(Real, 0, None, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class ModelMethods(ClassifierMixin):
    """What a fitted model answers: for every estimator with a `model_`, a kernel and a label."""

    kernel: Any
    universum_label: Any
    model_: FittedModel

    def _decision_values(self, X: Any) -> Any:
        """f_l(x), (n_samples, n_classes); a tensor of PyTorch on its device if X is a tensor."""
        check_is_fitted(self)
        if tensors.is_tensor(X):
            from musvm._input import on_device

            return self.model_.decision_values(on_device.points_for(self, X))
        return self.model_.decision_values(reading.points_for(self, X))

    def decision_function(self, X: Any) -> FloatArray:
        """Decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points. For a precomputed kernel, the kernel between them and all rows of the
            fit.

        Returns
        -------
        decision : ndarray of shape (n_samples, n_classes) or (n_samples,)
            :math:`f_l(x)` for every class. For two classes :math:`f_1(x) - f_0(x)`, positive
            where `classes_[1]` is predicted.
        """
        F = self._decision_values(X)
        return tensors.give_back(F[:, 1] - F[:, 0] if F.shape[1] == 2 else F, X)

    def predict(self, X: Any) -> Any:
        """Predict the class of the largest decision value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        F = self._decision_values(X)
        return tensors.give_back(self.model_.labels(F), X)

    def projections(self, X: Any) -> FloatArray:
        """Lead of every class over the best of the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        projections : ndarray of shape (n_samples, n_classes)
            :math:`f_k(x) - \\max_{l \\ne k} f_l(x)` for every class k: at least 1 where x is on
            its side of the margin of class k, positive where k is predicted.
        """
        return tensors.give_back(leads(self._decision_values(X)), X)

    def universum_score(self, X: Any) -> FloatArray:
        """How much points look like the classes rather than like the universum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        score : ndarray of shape (n_samples,)
            :math:`\\max_l f_l(x) - \\min_l f_l(x)`, the spread of the decision values over the
            classes. Training holds it below `delta` on the universum and at 1 or more on the
            classes, as far as the losses allow.
        """
        return tensors.give_back(spread(self._decision_values(X)), X)

    def certified(self, X: Any) -> BoolArray:
        """Which predicted labels the duality gap guarantees to be those of the exact optimum.

        However early the solver stopped, differences of decision values are no further than
        :math:`\\sqrt{2 \\, gap \\, k(x, x)}` from the optimum's: a label that leads by more is
        certain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`. The kernel must be positive semi-definite, and
            not precomputed.

        Returns
        -------
        certified : ndarray of shape (n_samples,)
            Whether `predict` gives the label of the exact optimum.
        """
        ahead = tensors.to_host(leads(self._decision_values(X))).max(axis=1)
        kernel = self.model_.kernel
        if kernel.is_precomputed:
            raise ValueError(
                "Labels of a precomputed kernel cannot be certified: k(x, x) is not known."
            )
        if not (kernel.is_psd_by_construction or callable(kernel.name)):
            raise ValueError(
                f"Labels of kernel={kernel.name!r} cannot be certified: it is not positive "
                "semi-definite."
            )
        points = reading.points_for(self, tensors.to_host(X))
        return is_certified(ahead, self.model_.certificate.gap, self.model_.diagonal(points))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that belong to a class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        y : array-like of shape (n_samples,)
            True labels. Rows of `universum_label` are left out.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        score : float
            Share of the rows, by weight, that are predicted correctly.
        """
        y, sample_weight = tensors.to_host(y), tensors.to_host(sample_weight)
        check_consistent_length(X, y, sample_weight)
        y = column_or_1d(y)
        judged = np.flatnonzero(~reading.is_universum(y, self.universum_label))
        if not len(judged):
            raise ValueError("y holds only the universum label, so there is nothing to score.")
        weight = None if sample_weight is None else np.asarray(sample_weight)[judged]
        if len(judged) < len(y):
            X = tensors.take(X, judged) if tensors.is_tensor(X) else safe_indexing(X, judged)
        predicted = tensors.to_host(self.predict(X))
        return float(accuracy_score(y[judged], predicted, sample_weight=weight))

    @property
    def predict_proba(self) -> Any:
        """Absent; the error says how to get probabilities by calibration."""
        name = type(self).__name__
        raise AttributeError(no_probabilities(name, f"{name}()"))


def no_probabilities(name: str, model: str) -> str:
    """How to get probabilities from what has none."""
    return (
        f"{name} has no predict_proba. For probabilities calibrate it: "
        f"sklearn.calibration.CalibratedClassifierCV({model}, ensemble=False)"
        ".fit(X, y, universum=(U,))."
    )


class UniversumSVC(ModelMethods, CallbackSupportMixin, BaseEstimator):
    """Multiclass support vector machine that can learn from a universum.

    A universum is a set of points that belong to none of the classes. The classifier minimises

    .. math::

        \\tfrac12 \\sum_l \\|w_l\\|^2 + C \\sum_i \\xi_i + C^* \\sum_j \\zeta_j

    where :math:`\\xi_i` is the multiclass hinge loss of Crammer and Singer and :math:`\\zeta_j`
    grows where the decision values of a universum point spread over the classes by more than
    `delta`. Without a universum it is the Crammer-Singer SVM, with any kernel. There is no
    intercept unless `fit_intercept` asks for one.

    The solution is certified: the duality gap, `dual_gap_`, bounds how far `objective_` is from
    the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the training losses; positive. Smaller values regularise more.

    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'precomputed'} or callable, default='rbf'
        The kernel. A callable is given two arrays of shapes (a, n_features) and
        (b, n_features) and returns the (a, b) matrix of kernel values, as scikit-learn's
        pairwise kernels do. For 'precomputed', `fit`
        takes the kernel matrix of all its rows, universum included, with the universum marked
        by `universum_label`; `predict` takes the kernel between the new points and all rows of
        the fit, in their order.

    gamma : {'scale', 'auto'} or float, default='scale'
        Coefficient of 'rbf', 'poly' and 'sigmoid'. 'scale' is 1 / (n_features * X.var()), where
        only training points count, each as often as its sample weight says: a universum does not
        change the kernel. 'auto' is 1 / n_features.

    degree : int, default=3
        Degree of 'poly'.

    coef0 : float, default=0.0
        Constant term of 'poly' and 'sigmoid'.

    delta : float, default=0.0
        How far the decision values of a universum point may spread at no cost; not negative.
        Without a universum it has no effect: a model and the plain SVM that it is compared with
        are the same estimator, fitted with `universum` and without.

    universum_weight : 'balanced' or float, default='balanced'
        :math:`C^* / C`. 'balanced' is n / (m L) for n training points, m universum points and L
        classes, counted by sample weight. 0 ignores the universum.

    universum_loss : {'sum', 'max'}, default='sum'
        'sum' adds up, over the classes, by how much more than `delta` a class lies below the
        highest. 'max' takes the largest of these terms only. They are equal for two classes.

    universum_label : str, int, float, bool or None, default=None
        Label in `y` that marks universum rows. It is not a class: it does not appear in
        `classes_`, and `score` leaves its rows out.

    class_weight : dict, 'balanced' or None, default=None
        Factors of C by class. 'balanced' gives every class the same total.

    fit_intercept : bool, default=False
        Whether every class has an intercept. It is regularised like the other weights, as in
        LIBLINEAR: the kernel is k + 1, the features of a linear one have one more that is always
        1. With an intercept the decision values of an RBF kernel no longer vanish far from the
        data, so that the region where `universum_score` exceeds a threshold need not be bounded.

    solver : {'auto', 'gram', 'working-set', 'linear', 'interior'}, default='auto'
        'gram' holds the whole kernel matrix and takes Newton steps: exact to many digits, and
        the fastest up to a few thousand points. 'working-set' computes kernel rows as it needs
        them: for many points. 'linear' is for the linear kernel and many points: it keeps
        weights and computes no kernels at all. 'interior' takes interior-point steps, few of them
        whatever C is: for linear kernels with far fewer features than points, and kernel matrices
        of low rank. 'auto' weighs what each would cost. All of them stop at the same `tol`.

    cache_size : float, default=4000
        Largest size of the kernel cache of 'working-set', in MB, and of the equations of
        'interior' where `solver` asks for it. Memory is taken as rows are computed, so small
        problems take less.

    tol : float, default=1e-4
        Relative duality gap at which the solver stops: `dual_gap_` is at most `tol` times
        `objective_`, and at most `tol` times what the model gains over one that knows nothing,
        whose objective is the sum of C over the training points. So it means the same at every C.
        Unless rounding is in the way, it stops at a tenth of that gain times `tol`. Where even the
        optimum gains next to nothing, `objective_` alone counts, and may be above that sum.

    max_iter : int, default=1000
        Largest number of rounds of the solver, or of steps of interior or proximal points.

    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the points. None is a fixed order as well.

    verbose : int, default=0
        1 shows the progress of a fit that takes more than a few seconds, with the gap and an
        estimate of the time left, and prints one line at its end.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.

    support_ : ndarray of shape (n_training_sv,)
        Rows of `X` that are training points and support vectors.

    universum_support_ : ndarray of shape (n_universum_sv,)
        Universum points that are support vectors: rows of `universum`, its parts stacked in
        order, or rows of `X` if they were marked by `universum_label`.

    support_vectors_ : {ndarray, sparse array} of shape (n_training_sv + n_universum_sv, n_features)
        The points of `support_`, then those of `universum_support_`. Empty for a precomputed
        kernel.

    dual_coef_ : ndarray of shape (n_classes, n_training_sv + n_universum_sv)
        Dual variables of the support vectors, in the order of `support_vectors_`. Every column
        sums to zero.

    n_support_ : ndarray of shape (n_classes,)
        Number of training support vectors of each class.

    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        The weights :math:`w_l`; for two classes their difference, as in `decision_function`.
        Linear kernel only.

    objective_ : float
        Primal objective, the value of the expression above.

    intercept_ : ndarray of shape (n_classes,) or (1,)
        The intercepts, in the form of `coef_`; zero without `fit_intercept`.

    dual_gap_ : float
        Duality gap: `objective_` is above the optimum by no more than this.

    n_iter_ : int
        Rounds of the solver.

    converged_ : bool
        Whether the solver reached `tol`.

    model_ : FittedModel
        All of the above as one object, with the kernel's settled parameters and the caps of all
        rows (`musvm.model`).

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` has names that are all strings.

    See Also
    --------
    sklearn.svm.LinearSVC : Crammer-Singer SVM with a linear kernel, by LIBLINEAR.
    sklearn.svm.SVC : One-versus-one SVM with kernels.

    Notes
    -----
    **Weights are repetitions.** A row of weight 2 and the same row twice give the same model,
    and the order of the rows does not matter.

    **Kernels that are not positive semi-definite**, 'sigmoid' among them, make the problem
    non-convex. A small gap then still certifies a stationary point (the optimality conditions
    hold to that accuracy), not the global optimum. `fit` warns where it finds such a matrix.

    **Searches and pipelines.** scikit-learn's searches split an extra argument of `fit` that has
    as many rows as `X`. A universum in a tuple, ``universum=(U,)``, is always passed whole, so
    use that form there. :func:`make_universum_pipeline` makes pipelines that transform the
    universum like the training points. scikit-learn's own `Pipeline` does so only if metadata
    routing is enabled and it is made with ``transform_input=["universum"]``; otherwise its last
    step gets the universum as it is, and `fit` warns if that is on another scale than X. The
    label form needs none of that, but its rows are split into folds like all others
    (:class:`UniversumSplit` keeps them), and scikit-learn takes its label for a class: score with
    :func:`make_universum_scorer`, and pass ``universum=(U,)`` instead to `cross_val_predict` and to
    `CalibratedClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from musvm import UniversumSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= 16
    >>> classes, universum = y < 4, X[y >= 4][:200]
    >>> X, y = X[classes], y[classes]
    >>> clf = UniversumSVC(C=10, gamma=1 / 8, delta=0.05)
    >>> clf.fit(X[:40], y[:40], universum=universum)
    UniversumSVC(C=10, delta=0.05, gamma=0.125)
    >>> clf.predict(X[-5:]), y[-5:]
    (array([1, 2, 2, 2, 0]), array([1, 2, 2, 2, 0]))
    >>> bool(clf.dual_gap_ <= clf.tol * clf.objective_)
    True

    Points that belong to no class have lower scores.

    >>> own, foreign = clf.universum_score(X[40:]), clf.universum_score(universum)
    >>> bool(own.mean() > 2 * foreign.mean())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PARAMETER_CONSTRAINTS

    # A universum can only be meant for this estimator, so nobody needs to ask for its routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "universum": True,
        "universum_sample_weight": True,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        delta: float = 0.0,
        universum_weight: float | str = "balanced",
        universum_loss: UniversumLoss = "sum",
        universum_label: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = False,
        solver: Solver = "auto",
        cache_size: float = 4000.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.delta = delta
        self.universum_weight = universum_weight
        self.universum_loss = universum_loss
        self.universum_label = universum_label
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # -----------------------------------------------------------------------------------------
    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        universum: Any = None,
        sample_weight: Any = None,
        universum_sample_weight: Any = None,
    ) -> UniversumSVC:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features) or \
(n_samples, n_samples)
            Training points, and universum points where `universum_label` marks them. The square
            kernel matrix of all of them if `kernel` is 'precomputed'. Tensors of PyTorch and
            arrays of CuPy may be on a GPU, and need no gradient: they are detached.

        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.

        universum : {array-like, sparse matrix} of shape (m, n_features), a tuple or list of such \
arrays, or a callable, default=None
            Points of no class. None fits the plain SVM, and so do no rows at all, with a warning.
            An array of more than 256 MB as doubles, with a dense X, stays where it is: a memory
            map, ``np.load(path, mmap_mode="r")``, is read piece by piece, and only points that may
            take part in the solution are kept. A function without arguments that returns an
            iterator over arrays, or an object that can be iterated over again and again, a
            DataLoader for one, does the same for points in any storage. It is read many times and
            must give the same arrays in the same order each time: every row that the fit and its
            certificate rely on is compared with what was read first, and other rows are refused.

        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C for the rows of X, universum rows included. A row of weight 0 is left
            out.

        universum_sample_weight : array-like of shape (m,), or a tuple of such arrays, default=None
            The same for the rows of `universum`, factors of C*: weight 2 is the row twice, a row
            of weight 0 is left out.

        Returns
        -------
        self : UniversumSVC
            The fitted estimator.
        """
        data = self._read(X, y, universum, sample_weight, universum_sample_weight)
        precomputed = self.kernel == "precomputed"
        warn_of_universum(data, X, universum, precomputed=precomputed)
        caps = row_caps(data, self.C, self.class_weight, self.universum_weight)
        blocks = merge(data, caps, equal_rows=not precomputed)
        kernel = self._settled_kernel(data, blocks)
        terms: dict[str, Any] = {"delta": self.delta, "universum_loss": self.universum_loss}
        problem = state_problem(kernel, data, blocks, caps, **terms)
        events = FitEvents(self, X, y, self.max_iter)
        solution = self._solved(problem, events)
        alpha = blocks.shared_out(solution.alpha)
        self.model_ = FittedModel.of(kernel, data, caps, alpha, solution, **terms)
        self._report(solution, problem.diagonal)
        events.end()
        return self

    def _read(self, X: Any, y: Any, universum: Any, *weights: Any) -> FitData:
        """All rows, on the device of X where that is a tensor and there is much to compute."""
        if tensors.is_tensor(X) and starts_anew(universum) is not None:
            if not tensors.is_on_host(X):
                raise ValueError(
                    "universum is given in pieces, which are read by the processor: pass X.cpu(), "
                    "or put the pieces together, by torch.cat."
                )
        elif tensors.is_tensor(X):
            parts = [X, *reading.universum_parts(universum)]
            n_points = sum(map(reading.n_rows, parts))
            if stays_on_device(
                X, n_points, self.kernel, self.solver, fit_intercept=self.fit_intercept
            ):
                from musvm._input import on_device

                return on_device.read(self, X, y, universum, *weights)
        on_host = map(tensors.to_host, (X, y, universum, *weights))
        return reading.read(self, *on_host, may_stream=True)

    def _settled_kernel(self, data: FitData, blocks: Blocks) -> Kernel:
        """The kernel with gamma as a number."""
        if self.fit_intercept and self.kernel == "precomputed":
            raise ValueError(
                "fit_intercept=True needs a kernel that is not precomputed: pass the matrix with 1 "
                "added to every entry, which is the same."
            )
        gamma = 1.0
        if self.kernel in KERNELS_WITH_GAMMA:
            training = slice(len(blocks.y))
            X = tensors.take(data.X, blocks.rows[training])
            gamma = resolve_gamma(self.gamma, X, blocks.total(data.weight)[training])
        return Kernel(self.kernel, gamma, self.degree, self.coef0, float(self.fit_intercept))

    def _solved(self, problem: PointProblem, events: FitEvents) -> DualSolution:
        """The solution, whose rounds are shown and told to callbacks."""
        seeded = self.random_state is not None
        with FitProgress(self.tol, verbose=self.verbose) as progress:

            def follow(n_rounds: int, gap: float) -> None:
                progress.update(n_rounds, gap)
                events.step("round", n_rounds=n_rounds, relative_gap=gap)

            return solve_beyond_doubt(
                problem,
                solver=self.solver,
                cache_size=self.cache_size,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=check_random_state(self.random_state) if seeded else None,
                callback=follow,
            )

    def _report(self, solution: DualSolution, diagonal: FloatArray | None) -> None:
        """Say how well the problem was solved, with k(x, x) where it is known."""
        rounds, relative = solution.n_rounds, solution.relative_gap
        if self.verbose:
            reached = f"relative duality gap {relative:.1e}"
            print(
                f"[UniversumSVC] {rounds} round{'s' * (rounds != 1)}, "
                f"objective {solution.primal:.6g}, "
                f"{'not below that of zero weights' if np.isinf(relative) else reached}"
            )
        if not solution.converged:
            message = shortfall(
                solution,
                tol=self.tol,
                max_iter=self.max_iter,
                largest=None if diagonal is None else float(np.abs(diagonal).max()),
                kernel=self.kernel,
            )
            warn_user(message, ConvergenceWarning)

    # -----------------------------------------------------------------------------------------
    # Attributes of the fitted model

    @property
    def _fitted(self) -> FittedModel:
        """The model; an AttributeError that says so where there is none."""
        if "model_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        return self.model_

    @property
    def classes_(self) -> Any:
        """The class labels, sorted."""
        return self._fitted.classes

    @property
    def support_(self) -> IntArray:
        """Rows of X that are training points and support vectors."""
        return self._fitted.training_support

    @property
    def universum_support_(self) -> IntArray:
        """Universum points that are support vectors."""
        return self._fitted.universum_support

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, those of the universum last."""
        return self._fitted.vectors

    @property
    def dual_coef_(self) -> FloatArray:
        """Dual variables of the support vectors."""
        return self._fitted.dual_coef

    @property
    def n_support_(self) -> IntArray:
        """Number of training support vectors of each class."""
        return self._fitted.n_support

    @property
    def coef_(self) -> FloatArray:
        """The weights of a linear kernel."""
        weights = self._fitted.weights
        if weights is None:
            raise AttributeError("coef_ is only available with kernel='linear'.")
        return np.diff(weights, axis=0) if len(weights) == 2 else weights

    @property
    def intercept_(self) -> FloatArray:
        """The intercepts, in the form of `coef_`; zero without `fit_intercept`."""
        intercept = self._fitted.intercept
        return np.diff(intercept) if len(intercept) == 2 else intercept

    @property
    def objective_(self) -> float:
        """Primal objective."""
        return self._fitted.certificate.primal

    @property
    def dual_gap_(self) -> float:
        """Duality gap, absolute."""
        return self._fitted.certificate.gap

    @property
    def n_iter_(self) -> int:
        """Rounds of the solver."""
        return self._fitted.certificate.n_rounds

    @property
    def converged_(self) -> bool:
        """Whether the solver reached `tol`."""
        return self._fitted.certificate.converged
