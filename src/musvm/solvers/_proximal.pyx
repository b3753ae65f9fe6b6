"""The nearest rows of the dual, all at once, and which of their labels are free.

With decision values F, a centre alpha_i and a length s_i for every row, row i is the block of
`musvm.dual._blocks` with q = 1 / s_i and b = F_i - alpha_i / s_i:

    minimise over a    <F_i, a> + (its dual cost) + ||a - centre_i||^2 / (2 s_i)    over its set.

Its solution is a piecewise linear function of F_i. On a piece the change of a is -s_i times that of
F_i, less the mean over its *group*: the free labels of the row, those that are neither at a bound
nor at a kink. A row has one group, or two where it uses up all its mass ("max").

Arrays are row-major, (M, L).
"""

from libc.stdlib cimport free, malloc

from musvm.dual._blocks cimport at_bound, row_block


cdef inline bint is_free(
    double a, bint own, bint training, double cap, double delta, bint is_max, bint full
) noexcept nogil:
    """Whether a label may move; `full` is a row of the "max" loss that uses up all its mass."""
    if training:
        return 0.0 < a < cap if own else a < 0.0
    if is_max:
        return a != 0.0 or (delta == 0.0 and not full)
    return a < cap and (a != 0.0 or delta == 0.0)


cdef bint find_groups(
    const double* a, Py_ssize_t L, Py_ssize_t own, double cap, double delta, bint is_max,
    signed char* codes
) noexcept nogil:
    """The group of every label, 1 or 2; 0 for what cannot move. Whether there is a group at all.

    `own` is -1 for the universum.
    """
    cdef double mass = 0.0
    cdef bint full = False
    cdef Py_ssize_t l, first = 0, second = 0
    if own < 0 and is_max:
        for l in range(L):
            mass += a[l] if a[l] > 0.0 else 0.0
        full = mass >= cap - at_bound(cap, cap)
    for l in range(L):
        codes[l] = 0
        if is_free(a[l], l == own, own >= 0, cap, delta, is_max, full):
            if full and a[l] < 0.0:
                codes[l] = 2
                second += 1
            else:
                codes[l] = 1
                first += 1
    if first == 1 or second == 1:
        for l in range(L):
            if (codes[l] == 1 and first == 1) or (codes[l] == 2 and second == 1):
                codes[l] = 0
    return first > 1 or second > 1


def nearest_rows(
    const double[:, ::1] F,
    const double[:, ::1] dF,
    double t,
    const double[:, ::1] centre,
    const double[::1] lengths,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    double delta,
    bint is_max,
    Py_ssize_t start,
    Py_ssize_t stop,
    double[:, ::1] alpha,
    signed char[:, ::1] codes,
    signed char[::1] is_active,
):
    """Rows start:stop of alpha and of the codes of their groups, for decision values F + t dF.

    `is_active` says which rows have a group at all. Returns the sums of ||a - centre_i||^2 / s_i
    and of <a, dF_i>.
    """
    cdef Py_ssize_t L = F.shape[1], n = y.shape[0], i, l
    cdef double q, change, moved, total = 0.0, along = 0.0
    cdef double* b = <double*>malloc(2 * L * sizeof(double))
    if b == NULL:
        raise MemoryError()
    with nogil:
        for i in range(start, stop):
            q = 1.0 / lengths[i]
            for l in range(L):
                b[l] = F[i, l] + t * dF[i, l] - q * centre[i, l]
            row_block(b, L, i, y, q, caps[i], delta, is_max, &alpha[i, 0])
            is_active[i] = find_groups(
                &alpha[i, 0], L, y[i] if i < n else -1, caps[i], delta, is_max, &codes[i, 0]
            )
            moved = 0.0
            for l in range(L):
                change = alpha[i, l] - centre[i, l]
                moved += change * change
                along += alpha[i, l] * dF[i, l]
            total += q * moved
    free(b)
    return total, along
