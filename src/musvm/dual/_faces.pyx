"""Projections onto the sets of rows and onto a face, and the Hessian of a face.

alpha is class-major here, (L, M), as everywhere in the compiled loops.
"""

from libc.stdlib cimport free, malloc

from musvm.dual._blocks cimport box_block, row_block


def project_groups(
    double[::1] values,
    const double[::1] lower,
    const double[::1] upper,
    const double[::1] totals,
    const Py_ssize_t[::1] starts,
):
    """Project every group of free variables onto its box and its sum, in place.

    Group g is values[starts[g]:starts[g + 1]].
    """
    cdef Py_ssize_t g, k, longest = 0, l
    for g in range(totals.shape[0]):
        longest = max(longest, starts[g + 1] - starts[g])
    cdef double* a = <double*>malloc((longest + 1) * sizeof(double))
    if a == NULL:
        raise MemoryError()
    with nogil:
        for g in range(totals.shape[0]):
            k = starts[g + 1] - starts[g]
            box_block(&values[starts[g]], &lower[starts[g]], &upper[starts[g]], k, totals[g], a)
            for l in range(k):
                values[starts[g] + l] = a[l]
    free(a)


def project_rows(
    double[:, ::1] alpha,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    bint is_max,
):
    """Project every row of the class-major alpha onto its set, in place."""
    cdef Py_ssize_t M = alpha.shape[1], L = alpha.shape[0], n = y.shape[0]
    cdef Py_ssize_t i, l
    cdef double* b = <double*>malloc(3 * L * sizeof(double))
    if b == NULL:
        raise MemoryError()
    cdef double* a = b + 2 * L
    with nogil:
        for i in range(M):
            for l in range(L):
                b[l] = -alpha[l, i]
            if i < n:
                b[y[i]] += 1.0
            row_block(b, L, i, y, 1.0, caps[i], 0.0, is_max, a)
            for l in range(L):
                alpha[l, i] = a[l]
    free(b)


def fill_hessian(
    const double[:, ::1] K,
    const Py_ssize_t[::1] row,
    const Py_ssize_t[::1] plus,
    const Py_ssize_t[::1] minus,
    double[:, ::1] H,
):
    """The upper triangle of K_{row_a, row_b} <e_plus_a - e_minus_a, e_plus_b - e_minus_b>.

    A C-ordered upper triangle is the lower triangle of the Fortran-ordered matrix LAPACK sees.
    """
    cdef Py_ssize_t p = row.shape[0], a, b
    cdef int sign
    with nogil:
        for a in range(p):
            for b in range(a, p):
                sign = (
                    (plus[a] == plus[b]) + (minus[a] == minus[b])
                    - (plus[a] == minus[b]) - (minus[a] == plus[b])
                )
                H[a, b] = sign * K[row[a], row[b]]
