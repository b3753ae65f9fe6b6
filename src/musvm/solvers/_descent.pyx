"""Block coordinate descent on rows that violate, the violations, and updates of decision values.

`descend` minimises one row of the dual at a time in closed form (`_blocks.pyx`) and keeps
F = alpha K up to date, but only rows that violate the optimality conditions by more than a
threshold: looking at a row costs L operations, moving it costs a kernel row for each label that
moved. Rows that are satisfied are not looked at again until all others are too.

Once every row was looked at, moves go further than to the minimum of their block
(over-relaxation): where rows are correlated, those that follow want more of the same. With a
curvature q / r in place of q, D still falls by (1 / r - 1/2) q times the squared length of a move.

alpha and F are class-major, (L, M): an update of one label is then one contiguous axpy of a
kernel row, done by SciPy's BLAS, and only labels that moved need one. K and F may be floats or
doubles: floats are twice as fast, and good enough while the threshold is far above their
rounding. alpha is always in doubles.
"""

from cython cimport floating
from libc.math cimport fabs, fmax
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from scipy.linalg.cython_blas cimport daxpy, saxpy

from musvm.dual._blocks cimport largest_entry, row_block, row_violation
from musvm.solvers._signals cimport after_a_look

# r: moves are a tenth to two fifths fewer than with 1, wherever they are many.
cdef double RELAXATION = 1.4


cdef inline void add_multiple(int n, double factor, const floating* x, floating* y) noexcept nogil:
    cdef int one = 1
    cdef float single
    if floating is double:
        daxpy(&n, &factor, <double*>x, &one, y, &one)
    else:
        single = <float>factor
        saxpy(&n, &single, <float*>x, &one, y, &one)


def descend(
    const floating[:, ::1] gram,
    double[:, ::1] alpha,
    floating[:, ::1] F,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    double delta,
    bint is_max,
    const double[::1] curvature,
    const Py_ssize_t[::1] order,
    double threshold,
    Py_ssize_t max_moves,
):
    """Minimise rows that violate by more than `threshold` until none does, or for `max_moves`.

    alpha and F are class-major, (L, w), and change in place; `order` lists all w rows. Returns
    how often a row moved. An interrupt ends it with an exception.
    """
    cdef Py_ssize_t w = gram.shape[0], L = alpha.shape[0]
    cdef Py_ssize_t i, k, l, n_active = w, n_left, moves = 0, operations = 0
    cdef bint all_rows = True
    cdef double q, change, relaxation = 1.0
    cdef double* f = <double*>malloc(5 * L * sizeof(double))
    cdef Py_ssize_t* active = <Py_ssize_t*>malloc(w * sizeof(Py_ssize_t))
    if f == NULL or active == NULL:
        free(f)
        free(active)
        raise MemoryError()
    cdef double* old = f + L
    cdef double* a = f + 2 * L
    cdef double* b = f + 3 * L
    cdef double largest
    for k in range(w):
        active[k] = order[k]
    try:
        with nogil:
            largest = largest_entry(&alpha[0, 0], L * w) if w else 0.0
            while n_active and moves < max_moves:
                n_left = 0
                for k in range(n_active):
                    i = active[k]
                    for l in range(L):
                        f[l] = F[l, i]
                        old[l] = alpha[l, i]
                    if row_violation(f, old, L, i, y, caps[i], delta, is_max, largest) <= threshold:
                        continue
                    active[n_left] = i
                    n_left += 1
                    q = curvature[i] / relaxation
                    for l in range(L):
                        b[l] = f[l] - q * old[l]
                    row_block(b, L, i, y, q, caps[i], delta, is_max, a)
                    moves += 1
                    operations += L
                    for l in range(L):
                        change = a[l] - old[l]
                        if change != 0.0:
                            alpha[l, i] = a[l]
                            largest = fmax(largest, fabs(a[l]))
                            add_multiple(<int>w, change, &gram[i, 0], &F[l, 0])
                            operations += w
                    operations = after_a_look(operations)
                relaxation = RELAXATION
                if n_left:
                    n_active = n_left
                    all_rows = False
                elif all_rows:
                    n_active = 0
                else:
                    n_active = w
                    all_rows = True
                    for k in range(w):
                        active[k] = order[k]
    finally:
        free(f)
        free(active)
    return moves


# Sums of floats of so many rows at a time, in so many numbers that the first cache holds them.
cdef enum:
    ROWS_A_SUM = 256
    SUMS = 6144
    FEWEST_COLUMNS = 128


def add_products(
    const floating[:, ::1] kernel_rows,
    const Py_ssize_t[::1] chosen,
    const floating[:, ::1] change,
    double[:, ::1] F,
    Py_ssize_t start,
    Py_ssize_t stop,
):
    """F[start:stop] += kernel_rows[chosen, start:stop]^T change.

    Labels that did not change cost nothing. Sums of floats are short, and added up in doubles.
    """
    cdef Py_ssize_t w = chosen.shape[0], L = change.shape[1], k, l, j, first, rows, last
    cdef Py_ssize_t width = max(SUMS // L, FEWEST_COLUMNS), columns
    cdef floating* sums = <floating*>malloc(L * width * sizeof(floating))
    if sums == NULL:
        raise MemoryError()
    with nogil:
        first = start
        while first < stop:
            columns = min(width, stop - first)
            rows = 0
            while rows < w:
                last = min(rows + ROWS_A_SUM, w)
                memset(sums, 0, L * width * sizeof(floating))
                for k in range(rows, last):
                    for l in range(L):
                        if change[k, l] != 0.0:
                            add_multiple(
                                <int>columns, change[k, l], &kernel_rows[chosen[k], first],
                                sums + l * width,
                            )
                for j in range(columns):
                    for l in range(L):
                        F[first + j, l] += sums[l * width + j]
                rows = last
            first += columns
    free(sums)


def largest_violation(
    const double[:, ::1] alpha,
    const double[:, ::1] F,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    double delta,
    bint is_max,
):
    """The largest violation of a row; alpha and F are class-major, (L, M)."""
    cdef Py_ssize_t L = alpha.shape[0], M = alpha.shape[1], i, l
    cdef double worst = 0.0, largest
    cdef double* f = <double*>malloc(2 * L * sizeof(double))
    if f == NULL:
        raise MemoryError()
    cdef double* a = f + L
    with nogil:
        largest = largest_entry(&alpha[0, 0], L * M) if M else 0.0
        for i in range(M):
            for l in range(L):
                f[l] = F[l, i]
                a[l] = alpha[l, i]
            worst = fmax(worst, row_violation(f, a, L, i, y, caps[i], delta, is_max, largest))
    free(f)
    return worst


def violations(
    const double[:, ::1] alpha,
    const double[:, ::1] F,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    double delta,
    bint is_max,
    double[::1] out,
):
    """The violation of every row; alpha and F are (M, L) here, one row per point."""
    cdef Py_ssize_t L = alpha.shape[1], M = alpha.shape[0], i
    cdef double largest
    with nogil:
        largest = largest_entry(&alpha[0, 0], L * M) if M else 0.0
        for i in range(M):
            out[i] = row_violation(
                &F[i, 0], &alpha[i, 0], L, i, y, caps[i], delta, is_max, largest
            )
