"""Block coordinate descent on rows that violate, the violations, and updates of decision values.

`descend` minimises one row of the dual at a time in closed form (`_blocks.pyx`) and keeps
F = alpha K up to date, but only rows that violate the optimality conditions by more than a
threshold: looking at a row costs L operations, moving it costs a kernel row for each label that
moved. Rows that are satisfied are not looked at again until all others are too, and these go on
until they violate by no more than SETTLED of the threshold: what moves next would make them violate
again.

Nor is F of rows that are not looked at needed before that. Once updates of it have cost as much as
a copy, K and F of what is still active are copied, and moves go on there; then F of all rows is
made up for, by one update of each label that changed.

Once every row was looked at, moves go further than to the minimum of their block
(over-relaxation): where rows are correlated, those that follow want more of the same. With a
curvature q / r in place of q, D still falls by (1 / r - 1/2) q times the squared length of a move.

alpha and F are class-major, (L, M): an update of one label is then one contiguous axpy of a
kernel row, done by SciPy's BLAS, and only labels that moved need one. K and F may be floats or
doubles: floats are twice as fast, and good enough while the threshold is far above their
rounding. alpha is always in doubles.
"""

from cython cimport floating
from libc.math cimport fabs
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from scipy.linalg.cython_blas cimport daxpy, saxpy

from musvm.dual._blocks cimport larger, largest_entry, row_block, row_violation
from musvm.solvers._signals cimport after_a_look

# r: moves are a tenth to two fifths fewer than with 1, wherever they are many.
cdef double RELAXATION = 1.4
# Violations that moves leave of rows that they return to, as a share of the threshold: with 1 they
# come back to all rows twice as often.
cdef double SETTLED = 0.5
# Copying an entry of K takes as long as so many of an update, or less; no copy is larger than this
# share of the columns that are in use.
cdef double COPY = 10.0, LARGEST_COPY = 0.7


cdef inline void add_multiple(int n, double factor, const floating* x, floating* y) noexcept nogil:
    cdef int one = 1
    cdef float single
    if floating is double:
        daxpy(&n, &factor, <double*>x, &one, y, &one)
    else:
        single = <float>factor
        saxpy(&n, &single, <float*>x, &one, y, &one)


cdef void take_square(
    const floating* K, Py_ssize_t w, const Py_ssize_t* rows, Py_ssize_t n, floating* square
) noexcept nogil:
    """The entries of K, (w, w), between some rows."""
    cdef Py_ssize_t i, j
    cdef const floating* row
    for i in range(n):
        row = K + rows[i] * w
        for j in range(n):
            square[i * n + j] = row[rows[j]]


cdef void take_columns(
    const floating* values, Py_ssize_t n, const Py_ssize_t* places, Py_ssize_t n_taken,
    Py_ssize_t L, floating* taken
) noexcept nogil:
    """Some columns of values, (L, n); `taken` may be the same if places ascend."""
    cdef Py_ssize_t j, l
    for l in range(L):
        for j in range(n_taken):
            taken[l * n_taken + j] = values[l * n + places[j]]


cdef void make_up(
    const floating* K, Py_ssize_t w, const Py_ssize_t* rows, Py_ssize_t n, Py_ssize_t L,
    const double* alpha, const double* before, floating* F
) noexcept nogil:
    """Add to F, (L, w), what alpha of some rows has changed by since it was `before`, (L, n)."""
    cdef Py_ssize_t j, l
    cdef double change
    for j in range(n):
        for l in range(L):
            change = alpha[l * w + rows[j]] - before[l * n + j]
            if change != 0.0:
                add_multiple(<int>w, change, K + rows[j] * w, F + l * w)


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
    how often a row moved. An interrupt ends it with an exception, and F is not alpha K then.
    """
    cdef Py_ssize_t w = gram.shape[0], L = alpha.shape[0]
    cdef Py_ssize_t i, j, k, l, n_active = 0, n_left, moves = 0, operations = 0
    cdef bint all_rows, is_worth_it
    cdef double q, change, largest, relaxation = 1.0, enough
    if w == 0:
        return 0
    # Moves update n columns of F: all, or a copy of those of `rows`; `active` are places in these.
    cdef const floating* K
    cdef floating* values
    cdef Py_ssize_t n = w
    # What updates of columns that are not active cost since the last copy, or look at all rows.
    cdef double updates, wasted
    # The first to be copied, of which later copies are parts: their rows, and alpha before.
    cdef Py_ssize_t n_first = 0, room = 0
    cdef double* before = NULL
    cdef floating* square = NULL
    cdef floating* columns = NULL
    cdef double* f = <double*>malloc(5 * L * sizeof(double))
    cdef Py_ssize_t* rows = <Py_ssize_t*>malloc(3 * w * sizeof(Py_ssize_t))
    if f == NULL or rows == NULL:
        free(f)
        free(rows)
        raise MemoryError()
    cdef double* old = f + L
    cdef double* a = f + 2 * L
    cdef double* b = f + 3 * L
    cdef Py_ssize_t* active = rows + w
    cdef Py_ssize_t* first = rows + 2 * w
    try:
        with nogil:
            largest = largest_entry(&alpha[0, 0], L * w)
            while moves < max_moves:
                if n_active == 0:
                    if n < w:
                        make_up(&gram[0, 0], w, first, n_first, L, &alpha[0, 0], before, &F[0, 0])
                    K, values, n, n_active = &gram[0, 0], &F[0, 0], w, w
                    for k in range(w):
                        rows[k] = k
                        active[k] = order[k]
                    all_rows, enough, wasted = True, threshold, 0.0
                n_left = 0
                updates = 0.0
                for k in range(n_active):
                    j = active[k]
                    i = rows[j]
                    for l in range(L):
                        f[l] = values[l * n + j]
                        old[l] = alpha[l, i]
                    if row_violation(f, old, L, i, y, caps[i], delta, is_max, largest) <= enough:
                        continue
                    active[n_left] = j
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
                            largest = larger(fabs(a[l]), largest)
                            add_multiple(<int>n, change, K + j * n, values + l * n)
                            updates += n
                            operations += n
                    operations = after_a_look(operations)
                relaxation = RELAXATION
                n_active = n_left
                if moves >= max_moves or (n_left == 0 and all_rows):
                    break
                all_rows, enough = False, SETTLED * threshold
                wasted += updates * (n - n_left) / n
                is_worth_it = wasted >= COPY * n_left * n_left and n_left <= LARGEST_COPY * n
                if n_left == 0 or not is_worth_it:
                    continue
                wasted = 0.0
                if n == w:
                    if square == NULL:
                        room = <Py_ssize_t>(LARGEST_COPY * w)
                        before = <double*>malloc(L * room * sizeof(double))
                        columns = <floating*>malloc(L * room * sizeof(floating))
                        square = <floating*>malloc(room * room * sizeof(floating))
                        if before == NULL or columns == NULL or square == NULL:
                            with gil:
                                raise MemoryError()
                    n_first = n_left
                    for k in range(n_left):
                        first[k] = active[k]
                    take_columns(&alpha[0, 0], w, first, n_first, L, before)
                take_columns(values, n, active, n_left, L, columns)
                for k in range(n_left):
                    rows[k] = rows[active[k]] if n < w else first[k]
                    active[k] = k
                take_square(&gram[0, 0], w, rows, n_left, square)
                K, values, n = square, columns, n_left
            if n < w:
                make_up(&gram[0, 0], w, first, n_first, L, &alpha[0, 0], before, &F[0, 0])
    finally:
        free(f)
        free(rows)
        free(before)
        free(columns)
        free(square)
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
            worst = larger(row_violation(f, a, L, i, y, caps[i], delta, is_max, largest), worst)
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
