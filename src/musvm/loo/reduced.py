"""The kernel that is left when rows free in all labels are minimised out, and its directions.

On the face of a solution (`musvm.dual.faces`) a universum row with all L labels free can move by
any zero-sum vector. With A the set of such rows and R all others, the best answer of A to a
change x_R, whose rows sum to zero, is

    x_A = -W x_R,    W = K_AA^-1 K_AR,

again with rows that sum to zero; and what R sees is the same problem with

    S = K_RR - K_RA W     in place of K_RR.

Training rows are never in A, because they are the ones to be left out.

A row of R moves in the directions of its groups of free labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from musvm._input.tensors import FloatArray
from musvm.dual.faces import Directions, Face
from musvm.dual.newton import RIDGE, NotPositiveDefiniteError, cholesky, cholesky_solve
from musvm.dual.problem import DualProblem

# Columns handled at a time where a whole temporary matrix is to be avoided.
STRIP = 256


def cholesky_with_ridge(matrix: Callable[[], FloatArray], gram: FloatArray) -> FloatArray:
    """The lower Cholesky factor of a matrix made from the Gram matrix, plus a ridge.

    The ridge is the solver's own, or the smallest power of 100 times it that suffices: a matrix
    with rounding errors above 1e-11, or an indefinite one, needs more of it.
    """
    size = float(np.abs(gram.diagonal()).mean())
    ridge = RIDGE * (size if size > 0 else 1.0)
    while True:
        try:
            return cholesky(matrix(), ridge)
        except NotPositiveDefiniteError:
            ridge *= 100.0


class Reduced:
    """S and W for the face of a solution.

    Attributes
    ----------
    eliminated, kept : the rows A and R, sorted
    position : (M,) the index of a row of R among them
    S, W : as above; S is K itself if A is empty
    directions : those of R on the face, their rows counted within R
    """

    def __init__(self, problem: DualProblem, face: Face) -> None:
        K, M = problem.gram, problem.n_points
        row_of_group = face.row[face.starts[:-1]]
        full = (face.sizes == problem.rows.n_classes) & (row_of_group >= problem.rows.n_train)
        self.eliminated = row_of_group[full]
        self.kept = np.setdiff1d(np.arange(M), self.eliminated, assume_unique=True)
        self.position = np.full(M, -1)
        self.position[self.kept] = np.arange(len(self.kept))

        rest = ~full[face.group]
        rows, labels = self.position[face.row[rest]], face.label[rest]
        self.directions = Directions.of(rows, labels, face.sizes[~full])

        self._gram = K
        self._factor = np.zeros((0, 0))
        self.W = np.zeros((0, M))
        self.S = K
        if len(self.eliminated):
            within = np.ix_(self.eliminated, self.eliminated)
            self._factor = cholesky_with_ridge(lambda: K[within], K)
            across = K[np.ix_(self.eliminated, self.kept)]
            self.W = np.ascontiguousarray(cholesky_solve(self._factor, across))
            self.S = K[np.ix_(self.kept, self.kept)]
            self.S -= across.T @ self.W

    def inverse_hessian(self) -> FloatArray:
        """(Z' S Z)^-1 over the directions of the face."""
        factor = cholesky_with_ridge(lambda: self.directions.hessian(self.S), self._gram)
        return symmetric_inverse(factor)

    def inverse_eliminated(self) -> FloatArray:
        """K_AA^-1."""
        return symmetric_inverse(self._factor.copy(order="F"))


def symmetric_inverse(factor: FloatArray) -> FloatArray:
    """(L L')^-1 from a lower Cholesky factor, in its place, both triangles filled."""
    if not len(factor):
        return factor
    inverse: FloatArray = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    for start in range(0, len(inverse), STRIP):
        strip = slice(start, start + STRIP)
        corner = np.tril(inverse[strip, strip])
        inverse[strip, start:] = inverse[start:, strip].T
        inverse[strip, strip] = corner + np.tril(corner, -1).T
    return inverse.T  # C-ordered
