"""One block of `label_blocks.py`: gathered and inverted without holding up other threads.

Matrices are Fortran-ordered, and of symmetric ones only the lower triangle is written and read.
"""

from libc.math cimport sqrt

from scipy.linalg.cython_blas cimport dsymv, dtrsv

from musvm._blas cimport factor, invert_lower, square_lower


def invert(
    const double[:, ::1] K,
    const Py_ssize_t[::1] row,
    const double[::1] weights,
    double ridge,
    double[::1] scale,
    double[::1, :] inverse,
):
    """A^-1 of A = S (K_{row, row} + diag(weights)) S + ridge I, S = diag(scale), by its factor.

    `scale` is chosen for a unit diagonal. Of K the upper triangle is read if rows ascend. False,
    and scale and inverse are spoiled, if rounding leaves A no factor.
    """
    cdef int n = <int>row.shape[0]
    cdef Py_ssize_t a, b
    cdef double diagonal
    cdef bint is_found
    if n == 0:
        return True
    with nogil:
        for a in range(n):
            diagonal = K[row[a], row[a]] + weights[a]
            scale[a] = 1.0 / sqrt(diagonal) if diagonal > 0.0 else 1.0
        for a in range(n):
            inverse[a, a] = (K[row[a], row[a]] + weights[a]) * scale[a] * scale[a] + ridge
            for b in range(a + 1, n):
                inverse[b, a] = K[row[a], row[b]] * scale[a] * scale[b]
        is_found = factor(n, &inverse[0, 0], n) == 0
        if is_found:
            invert_lower(n, &inverse[0, 0], n)
            square_lower(n, &inverse[0, 0], n)
    return is_found


def add_scaled(
    const double[::1, :] inverse,
    const double[::1] scale,
    const Py_ssize_t[::1] group,
    double[::1, :] total,
):
    """total_{group, group} += S inverse S, S = diag(scale); groups ascend."""
    cdef Py_ssize_t a, b, n = group.shape[0]
    with nogil:
        for a in range(n):
            for b in range(a, n):
                total[group[b], group[a]] += inverse[b, a] * scale[a] * scale[b]


def add_tied(
    const double[::1, :] inverse,
    const double[::1] scale,
    const Py_ssize_t[::1] group,
    const Py_ssize_t[::1] tie,
    const double[::1] coefficient,
    double[::1, :] total,
):
    """The same for the places `tie`, after those of groups, times coefficients; -1 where none is.

    total_{tie, group} += T S inverse S and total_{tie, tie} += T S inverse S T, with
    T = diag(coefficient).
    """
    cdef Py_ssize_t a, b, n = group.shape[0]
    cdef double value
    with nogil:
        for a in range(n):
            for b in range(a, n):
                value = inverse[b, a] * scale[a] * scale[b]
                if tie[b] >= 0:
                    total[tie[b], group[a]] += coefficient[b] * value
                if tie[a] >= 0 and b > a:
                    total[tie[a], group[b]] += coefficient[a] * value
                if tie[a] >= 0 and tie[b] >= 0:
                    total[tie[b], tie[a]] += coefficient[a] * coefficient[b] * value


def scale_lower(double[::1, :] total, const double[::1] scale):
    """S total S in place of the total, S = diag(scale)."""
    cdef Py_ssize_t a, b, n = scale.shape[0]
    with nogil:
        for a in range(n):
            for b in range(a, n):
                total[b, a] *= scale[a] * scale[b]


def multiply(
    const double[::1, :] inverse,
    const double[::1] scale,
    double[::1] values,
    double[::1] product,
):
    """S inverse S values; the values are spoiled."""
    cdef int n = <int>values.shape[0], one = 1
    cdef double unit = 1.0, nothing = 0.0
    cdef Py_ssize_t a
    if n == 0:
        return
    with nogil:
        for a in range(n):
            values[a] *= scale[a]
        dsymv(
            "L", &n, &unit, <double*>&inverse[0, 0], &n, &values[0], &one, &nothing, &product[0],
            &one,
        )
        for a in range(n):
            product[a] *= scale[a]


def divide_by_factor(const double[::1, :] lower, const double[::1] scale, double[::1] values):
    """S (lower lower')^-1 S values in place of the values."""
    cdef int n = <int>values.shape[0], one = 1
    cdef Py_ssize_t a
    if n == 0:
        return
    with nogil:
        for a in range(n):
            values[a] *= scale[a]
        dtrsv("L", "N", "N", &n, <double*>&lower[0, 0], &n, &values[0], &one)
        dtrsv("L", "T", "N", &n, <double*>&lower[0, 0], &n, &values[0], &one)
        for a in range(n):
            values[a] *= scale[a]
