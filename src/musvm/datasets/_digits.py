"""Handwritten digits that come with scikit-learn, some as classes and others as universum."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

DESCR = """\
Handwritten digits with a universum
-----------------------------------
1797 images of 8 x 8 pixels, about 180 of each digit, as scikit-learn carries them; pixels divided
by 16 so that they lie between 0 and 1. Some digits are the classes, others the universum.

Source: test part of "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak (1998),
UCI Machine Learning Repository, https://doi.org/10.24432/C50P49.
Terms: Creative Commons Attribution 4.0.
"""


def load_digits_universum(
    classes: Iterable[int] = (3, 5, 8),
    universum: Iterable[int] | None = None,
    n_per_class: int = 50,
    m: int = 200,
    random_state: int | np.random.RandomState | None = 0,
    *,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, IntArray]:
    """Load digits to learn, digits to test on, and other digits as a universum.

    Nothing is downloaded.

    Parameters
    ----------
    classes : iterable of int, default=(3, 5, 8)
        The digits to tell apart.
    universum : iterable of int, default=None
        The digits to draw the universum from. None takes all that are not in `classes`.
    n_per_class : int, default=50
        Number of training images of each class. The remaining ones, at least one per class, are
        the test part.
    m : int, default=200
        Number of universum images, 0 for none.
    random_state : int, RandomState instance or None, default=0
        Decides which images are drawn.
    return_X_y : bool, default=False
        Return the training part `(data, target)` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of shape (n_per_class * len(classes), 64)
            Training images, in random order, pixels between 0 and 1.
        target : ndarray of shape (n_per_class * len(classes),)
            Their digits.
        data_test : ndarray of shape (n_test, 64)
            All other images of the classes.
        target_test : ndarray of shape (n_test,)
            Their digits.
        universum : ndarray of shape (m, 64)
            Images of no class.
        universum_target : ndarray of shape (m,)
            The digits that the universum images show.
        target_names : list of int
            The classes, in ascending order.
        DESCR : str
            A description of the data.

    Examples
    --------
    >>> from musvm.datasets import load_digits_universum
    >>> digits = load_digits_universum([0, 1, 2, 3], universum=[8], n_per_class=20, m=100)
    >>> digits.data.shape, digits.data_test.shape, digits.universum.shape
    ((80, 64), (640, 64), (100, 64))
    """
    if isinstance(classes, Integral):
        raise ValueError(
            f"classes must be a list of digits, such as range({classes}), not a number"
        )
    class_set = set(classes)
    universum_set = set(range(10)) - class_set if universum is None else set(universum)
    _check_digits(class_set, universum_set)
    X, y = load_digits(return_X_y=True)
    X /= 16.0
    rng = check_random_state(random_state)

    rows, rest = _split(y, sorted(class_set), n_per_class, rng)
    pool = rng.permutation(np.flatnonzero(np.isin(y, sorted(universum_set))))
    if not 0 <= m <= len(pool):
        raise ValueError(f"m must be from 0 to {len(pool)} for this universum, not {m}")
    if return_X_y:
        return X[rows], y[rows]
    return Bunch(
        data=X[rows],
        target=y[rows],
        data_test=X[rest],
        target_test=y[rest],
        universum=X[pool[:m]],
        universum_target=y[pool[:m]],
        target_names=sorted(class_set),
        DESCR=DESCR,
    )


def _split(
    y: IntArray, classes: list[int], n_per_class: int, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Rows to train on, `n_per_class` of each class in random order, and the others to test on."""
    train, test = [], []
    for digit in classes:
        order = rng.permutation(np.flatnonzero(y == digit))
        if not 1 <= n_per_class < len(order):
            raise ValueError(
                f"n_per_class must be from 1 to {len(order) - 1} for digit {digit} "
                f"to leave something to test on, not {n_per_class}"
            )
        train.append(order[:n_per_class])
        test.append(order[n_per_class:])
    return rng.permutation(np.concatenate(train)), np.concatenate(test)


def _check_digits(classes: set[int], universum: set[int]) -> None:
    if not classes | universum <= set(range(10)):
        raise ValueError(f"classes and universum must be digits: {sorted(classes | universum)}")
    if len(classes) < 2:
        raise ValueError(f"there must be at least two classes, not {sorted(classes)}")
    if classes & universum:
        raise ValueError(f"digits {sorted(classes & universum)} are both class and universum")
