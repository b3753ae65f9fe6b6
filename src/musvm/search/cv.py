"""`UniversumSVCCV`: chooses the parameters of a `UniversumSVC`."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from musvm._input import reading, tensors
from musvm._input.blocks import Blocks, merge
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray
from musvm._input.weights import balanced_weight, row_caps
from musvm._messages import warn_user
from musvm._progress import Progress
from musvm._sklearn import (
    StrOptions,
    all_or_nothing,
    fit_context,
    validate_parameter_constraints,
)
from musvm._threads import one_blas_thread
from musvm.dual.problem import UniversumLoss
from musvm.estimator import PARAMETER_CONSTRAINTS, UniversumSVC
from musvm.kernels import KERNELS_WITH_GAMMA, Kernel, resolve_gamma
from musvm.loo.evaluate import METHODS
from musvm.model import FittedModel
from musvm.search.cells import CellFit, Options
from musvm.search.choose import RULE, best_plain, best_with_universum
from musvm.search.memory import CellStore
from musvm.search.pool import Pool
from musvm.search.run import Cell, Runner
from musvm.search.steps import Fold, Grid, Steps
from musvm.search.table import as_table


class UniversumSVCCV(ClassifierMixin, BaseEstimator):
    """`UniversumSVC` that chooses its parameters itself.

    The search takes two steps. Step (a) chooses C and the kernel's `gamma` for the plain SVM.
    Step (b) keeps them and chooses `delta`, and C*/C if several are given, for the SVM with
    universum; the plain SVM stays a candidate. `universum_helps_` tells which of them won, and
    `best_estimator_` is the winner, fitted to all data.

    By default nothing is resampled: cells are judged by a bound on their leave-one-out error
    that costs less than a fit.

    Parameters
    ----------
    Cs : array-like of float, default=(1e-4, 1e-3, ..., 1e3)
        Values of C; positive.

    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'precomputed'} or callable, default='rbf'
        The kernel, as in `UniversumSVC`.

    gammas : array-like of float, 'scale' or 'auto', default=('scale',)
        Values of `gamma` for 'rbf', 'poly' and 'sigmoid'. 'scale' is resolved on all training
        points, in cross-validation as well.

    degree : int, default=3
        Degree of 'poly'.

    coef0 : float, default=0.0
        Constant term of 'poly' and 'sigmoid'.

    deltas : array-like of float, default=(0, 0.01, 0.05, 0.1)
        Values of `delta`.

    universum_weights : array-like of float or 'balanced', default=('balanced',)
        Values of C*/C.

    universum_loss : {'sum', 'max'}, default='sum'
        As in `UniversumSVC`.

    universum_label : str, int, float, bool or None, default=None
        Label in `y` that marks universum rows.

    class_weight : dict, 'balanced' or None, default=None
        Factors of C by class.

    criterion : {'span', 'span-2016', 'loo-estimate', 'loo'}, int or splitter, default='span'
        What judges a cell. The four names are methods of `loo_error`: two bounds on the
        leave-one-out error, an estimate of it, and the error itself. An integer is a number of
        stratified folds. A splitter, or a list of splits, sees training points only; every
        universum point is in every training part.

    joint : bool, default=False
        Whether all parameters are searched at once instead of in two steps.

    tol : float, default=1e-4
        Relative duality gap at which the solver stops.

    max_iter : int, default=1000
        Largest number of rounds of the solver for each fit.

    n_jobs : int or None, default=None
        Number of workers, by joblib: None is 1 unless a `joblib.parallel_config` says otherwise,
        -1 is all cores. The results do not depend on it, nor on the backend.

    memory : str, path or None, default=None
        Directory for finished cells. A search that was interrupted continues where it was if it
        is started again with the same directory, data and parameters.

    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the points. None is a fixed order as well.

    verbose : int, default=0
        1 shows a progress bar if the search takes more than a few seconds.

    Attributes
    ----------
    best_estimator_ : UniversumSVC
        The model with the chosen parameters, fitted to all data.

    best_params_ : dict
        The chosen parameters of `UniversumSVC`. If the plain SVM won, `universum_weight` is 0.

    best_score_ : float
        Error of the chosen cell by the criterion: the share of training points, by weight, that
        are misclassified when they are left out. Smaller is better.

    best_index_ : int
        Row of the chosen cell in `results_`.

    results_ : dict of ndarray
        One column per entry, one row per cell; ``pandas.DataFrame(search.results_)`` is a table.
        `step` is 'a' without universum and 'b' with it. `error` is the criterion, `hinge` the
        mean hinge loss of the left-out margins. `relative_gap`, `converged`, `n_iter` and
        `seconds` tell of the fits, the worst or the sum where there are several folds.
        `n_type_1` and `n_type_2` count training support vectors inside their bounds and at their
        bound, `n_universum_type_1` and `n_universum_type_2` those of the universum, on average
        over the folds. `params` are the parameters of `UniversumSVC`.

    left_out_margins_ : ndarray of shape (n_cells, n_points)
        :math:`f_y(x) - \\max_{l \\ne y} f_l(x)` of the points left out, as the criterion sees
        it, for every row of `results_`.

    left_out_rows_ : ndarray of shape (n_points,)
        Rows of `X` that these points are: all training points for the four named criteria, the
        test points of one split after the other otherwise.

    left_out_errors_ : ndarray of bool of shape (n_cells, n_points)
        Whether the criterion counts the point as an error.

    universum_helps_ : bool
        Whether the chosen model uses the universum.

    universum_gain_ : float
        By how much the best cell with universum has a smaller error than the best one without;
        NaN without a universum. By the criterion, but for the spans by 'loo-estimate', or by
        5-fold cross-validation where that is faster: see Notes.

    universum_gain_se_ : float
        Standard error of `universum_gain_`, from the points on which the two disagree. The
        universum is used if it gains more than this.

    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.

    n_iter_ : int
        Rounds of the solver for `best_estimator_`.

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` has names that are all strings.

    See Also
    --------
    UniversumSVC : The model.
    UniversumSplit : For searches with scikit-learn's own tools.

    Notes
    -----
    **The rule.** Of cells with equal errors, step (a) takes the smallest C, step (b) the largest
    C*/C, then the smallest `delta`. The universum is used if it gains more than one standard error.
    A span overlooks more errors the more a universum shrinks it, so it may choose C and `delta`,
    but whether the universum is used at all is decided by a second opinion on the two finalists.

    **Equal points are left out together.** Rows with the same features and label count as one
    point, of their summed weight, for the four named criteria. Otherwise a copy would answer for
    the point left out. So a row of weight 2 and the same row twice give the same search.

    **Clusters.** Inside ``with joblib.parallel_config(backend="dask")``, or any other backend
    that joblib knows, the cells are computed there. Every task uses one BLAS thread, which makes
    the results the same to the last digit on processors of one kind.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from musvm import UniversumSVCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= 16
    >>> classes, universum = y < 4, X[y >= 4][:100]
    >>> X, y = X[classes], y[classes]
    >>> search = UniversumSVCCV([1, 10, 100], gammas=[1 / 32, 1 / 8], criterion=5)
    >>> search.fit(X[:60], y[:60], universum=universum).best_params_["C"]
    1.0
    >>> search.universum_helps_
    False
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: PARAMETER_CONSTRAINTS[name]
            for name in (
                "kernel", "degree", "coef0", "universum_loss", "universum_label", "class_weight",
                "tol", "max_iter", "random_state", "verbose",
            )
        },
        "Cs": ["array-like"],
        "gammas": ["array-like"],
        "deltas": ["array-like"],
        "universum_weights": ["array-like"],
        "criterion": [StrOptions(set(METHODS)), "cv_object"],
        "joint": ["boolean"],
        "n_jobs": [Integral, None],
        "memory": [str, os.PathLike, None],
    }  # fmt: skip

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"universum": True}

    def __init__(
        self,
        Cs: Any = (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        *,
        kernel: Any = "rbf",
        gammas: Any = ("scale",),
        degree: int = 3,
        coef0: float = 0.0,
        deltas: Any = (0.0, 0.01, 0.05, 0.1),
        universum_weights: Any = ("balanced",),
        universum_loss: UniversumLoss = "sum",
        universum_label: Any = None,
        class_weight: Any = None,
        criterion: Any = "span",
        joint: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        memory: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.kernel = kernel
        self.gammas = gammas
        self.degree = degree
        self.coef0 = coef0
        self.deltas = deltas
        self.universum_weights = universum_weights
        self.universum_loss = universum_loss
        self.universum_label = universum_label
        self.class_weight = class_weight
        self.criterion = criterion
        self.joint = joint
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory = memory
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
        groups: Any = None,
    ) -> UniversumSVCCV:
        """Search, and fit the model that wins.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Training points, and universum points where `universum_label` marks them. The square
            kernel matrix of all of them if `kernel` is 'precomputed'.

        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.

        universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of \
such arrays, default=None
            Points of no class. None, or no rows at all, leaves out step (b).

        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C for the rows of X, universum rows included, and of their weight in the
            criterion. A row of weight 0 is left out.

        groups : array-like of shape (n_samples,), default=None
            Groups of the rows of X, for splitters that keep them together.

        Returns
        -------
        self : UniversumSVCCV
            The fitted search.
        """
        on_host = map(tensors.to_host, (X, y, universum, sample_weight, groups))
        X, y, universum, sample_weight, groups = on_host
        data = reading.read(self, X, y, universum, sample_weight)
        # Blocks do not depend on the universum's weight, as long as it is positive.
        caps = row_caps(data, 1.0, self.class_weight, 1.0)
        blocks = merge(data, caps, equal_rows=self.kernel != "precomputed")
        grid = self._grid(data, blocks)
        folds = self._folds(data, groups)
        # With folds, all of them and the final fit; otherwise a fit and a judgement of each cell.
        n_cells = self._n_cells(grid)
        n_tasks = 2 * n_cells if folds is None else n_cells * len(folds) + 1
        with (
            one_blas_thread(),
            Pool(self.n_jobs) as pool,
            Progress("Search", n_tasks, verbose=self.verbose) as progress,
        ):
            method = self.criterion if folds is None else None
            runner = Runner(self._options(), method, pool, CellStore(self.memory), progress)
            steps = Steps(grid, data, blocks, self.class_weight, self.universum_loss, folds, runner)
            cells = self._search(steps)
            self._describe(cells, grid)
            best = self._choose(cells, steps)
            fit = steps.final(cells[best])
        self.classes_ = data.classes
        self.best_estimator_ = self._model(data, blocks, grid.kernels[cells[best].spec.kernel], fit)
        self.n_iter_ = self.best_estimator_.n_iter_
        return self

    def _search(self, steps: Steps) -> list[Cell]:
        """All cells of both steps, plain ones first."""
        plain: list[Cell] = []
        universum: list[Cell] = []
        for kernels in steps.batches(effective_n_jobs(self.n_jobs)):
            found = steps.without_universum(kernels)
            plain += found
            if self.joint:
                universum += steps.with_universum(found)
        if not self.joint:
            best = best_plain(as_table(plain, steps.grid))
            universum = steps.with_universum([plain[best]])
        return plain + universum

    def _describe(self, cells: list[Cell], grid: Grid) -> None:
        """Set the attributes that tell of all cells, and say if some are unfinished."""
        self.results_ = as_table(cells, grid)
        self.left_out_rows_ = cells[0].rows
        self.left_out_margins_ = np.array([cell.margins[cell.judge_of_row] for cell in cells])
        self.left_out_errors_ = np.array([cell.wrong[cell.judge_of_row] for cell in cells])
        n_unfinished = int(np.sum(~self.results_["converged"]))
        if n_unfinished:
            warn_user(
                f"{n_unfinished} of {len(cells)} cells did not reach tol={self.tol:g}; the "
                f"largest relative duality gap is {self.results_['relative_gap'].max():.1e}: raise "
                "max_iter, scale the features, or loosen tol.",
                ConvergenceWarning,
            )

    def _choose(self, cells: list[Cell], steps: Steps) -> int:
        """Choose a cell and set the attributes that tell of it."""
        best = plain = best_plain(self.results_)
        universum = best_with_universum(self.results_, None if self.joint else plain)
        self.universum_gain_ = self.universum_gain_se_ = float("nan")
        if universum is not None:
            gain = steps.compare(cells[plain], cells[universum])
            self.universum_gain_, self.universum_gain_se_ = gain
            best = universum if RULE.is_gain(*gain) else plain
        self.best_index_ = best
        self.best_params_ = self.results_["params"][best]
        self.best_score_ = float(self.results_["error"][best])
        self.universum_helps_ = best != plain
        return best

    def _model(self, data: FitData, blocks: Blocks, kernel: Kernel, fit: CellFit) -> UniversumSVC:
        """The chosen cell as an estimator, as if fitted by itself."""
        model = UniversumSVC(
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            universum_loss=self.universum_loss,
            universum_label=self.universum_label,
            class_weight=self.class_weight,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self._options().seed,
            **self.best_params_,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        alpha = np.zeros((len(blocks.rows), len(data.classes)))
        alpha[: len(fit.alpha)] = fit.alpha
        model.model_ = FittedModel.of(
            kernel,
            data,
            row_caps(data, model.C, self.class_weight, model.universum_weight),
            blocks.shared_out(alpha),
            fit,
            delta=model.delta,
            universum_loss=self.universum_loss,
        )
        return model

    # -----------------------------------------------------------------------------------------
    # What to search

    def _grid(self, data: FitData, blocks: Blocks) -> Grid:
        n = len(blocks.y)
        weights = [w for w in self._values("universum_weights", "universum_weight") if w != 0]
        has_gamma = self.kernel in KERNELS_WITH_GAMMA
        gammas = self._values("gammas", "gamma")
        given = list(dict.fromkeys(gammas)) if has_gamma else [1.0]
        X, weight = data.X[blocks.rows[:n]], blocks.total(data.weight)[:n]
        kernels = [
            Kernel(self.kernel, resolve_gamma(gamma, X, weight), self.degree, self.coef0)
            for gamma in given
        ]
        return Grid(
            kernels=kernels,
            gammas=given if has_gamma else None,
            Cs=sorted(set(self._values("Cs", "C"))),
            weights=list(dict.fromkeys(weights)) if len(blocks.rows) > n else [],
            deltas=sorted(set(self._values("deltas", "delta"))),
            balanced=balanced_weight(
                data.weight[data.is_training].sum(),
                data.weight[~data.is_training].sum(),
                len(data.classes),
            ),
        )

    def _values(self, name: str, parameter: str) -> list[Any]:
        """The values given for a parameter of `UniversumSVC`, each checked as it checks them."""
        values = np.asarray(getattr(self, name), dtype=object).ravel().tolist()
        if not values:
            raise ValueError(f"{name} must hold at least one value.")
        for value in values:
            validate_parameter_constraints(
                PARAMETER_CONSTRAINTS, {parameter: value}, type(self).__name__
            )
        return [value if isinstance(value, str) else float(value) for value in values]

    def _n_cells(self, grid: Grid) -> int:
        n_plain = len(grid.kernels) * len(grid.Cs)
        n_continued = n_plain if self.joint else 1
        return n_plain + n_continued * len(grid.weights) * len(grid.deltas)

    def _options(self) -> Options:
        seed = self.random_state
        if seed is not None and not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return Options(
            float(self.tol),
            int(self.max_iter),
            None if seed is None else int(seed),
        )

    def _folds(self, data: FitData, groups: Any) -> list[Fold] | None:
        """Rows of every split, None where the criterion needs none."""
        if isinstance(self.criterion, str):
            return None
        rows = np.flatnonzero(data.is_training & (data.weight > 0))
        labels = data.classes[data.codes[rows]]
        if groups is not None:
            groups = column_or_1d(groups)[rows]
        splits = check_cv(self.criterion, labels, classifier=True).split(
            data.X[rows], labels, groups
        )
        folds = [(rows[train], rows[test]) for train, test in splits]
        for train, _ in folds:
            lost = np.setdiff1d(np.arange(len(data.classes)), data.codes[train])
            if len(lost):
                raise ValueError(
                    f"A split leaves no training points of class(es) "
                    f"{data.classes[lost].tolist()}: use fewer folds or a stratified splitter."
                )
        return folds

    # -----------------------------------------------------------------------------------------
    # Using the model

    def _fitted(self, X: Any) -> UniversumSVC:
        """The model, once X has been found to be like the data of the fit."""
        check_is_fitted(self)
        if tensors.is_tensor(X):
            # The model examines it where it is.
            return self.best_estimator_
        validate_data(
            self,
            X,
            reset=False,
            accept_sparse=False if self.kernel == "precomputed" else "csr",
            dtype=np.float64,
        )
        return self.best_estimator_

    def decision_function(self, X: Any) -> FloatArray:
        """Decision values of `best_estimator_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points. For a precomputed kernel, the kernel between them and all rows of the
            fit.

        Returns
        -------
        decision : ndarray of shape (n_samples, n_classes) or (n_samples,)
            As `UniversumSVC.decision_function`.
        """
        return self._fitted(X).decision_function(X)

    def predict(self, X: Any) -> Any:
        """Predict classes with `best_estimator_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        return self._fitted(X).predict(X)

    def projections(self, X: Any) -> FloatArray:
        """Lead of every class over the best of the others, by `best_estimator_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        projections : ndarray of shape (n_samples, n_classes)
            As `UniversumSVC.projections`.
        """
        return self._fitted(X).projections(X)

    def universum_score(self, X: Any) -> FloatArray:
        """How much points look like the classes, by `best_estimator_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, as in `decision_function`.

        Returns
        -------
        score : ndarray of shape (n_samples,)
            As `UniversumSVC.universum_score`.
        """
        return self._fitted(X).universum_score(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of `best_estimator_` on the rows that belong to a class.

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
        return self._fitted(X).score(X, y, sample_weight)
