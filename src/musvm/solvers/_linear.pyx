"""Block descent that keeps the weights V = X^T alpha, (d, L), in place of a Gram matrix.

The decision values of one point are a product with its row, F_i = x_i V; after its block is
minimised (`_blocks.pyx`), V += x_i^T (change of alpha_i). Each costs one pass over the nonzero
entries of x_i.

Points are compressed rows, of floats or doubles: the entries of row i are data[starts[i]:stops[i]],
in the `columns` of the same places. If all rows have all d columns (`dense`), `columns` lists them
once. If only the columns are compressed (`indirect`), the entries are data[i d + column]. V has one
row per feature, padded with zeros to `width`, a whole number of tiles of labels.
"""

from cython cimport floating
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from musvm.dual._blocks cimport row_block
from musvm.solvers._signals cimport after_a_look

# Vectors of several labels: see the header.
cdef extern from "_tiles.h":
    ctypedef unsigned short narrow
    void fetch(const void*, Py_ssize_t) noexcept nogil
    int choose_vectors(int) noexcept
    void gather_float_int(
        const float*, const int*, Py_ssize_t, const float*, Py_ssize_t, float*) noexcept nogil
    void gather_float_narrow(
        const float*, const narrow*, Py_ssize_t, const float*, Py_ssize_t, float*) noexcept nogil
    void gather_double_int(
        const double*, const int*, Py_ssize_t, const double*, Py_ssize_t, double*) noexcept nogil
    void gather_double_narrow(
        const double*, const narrow*, Py_ssize_t, const double*, Py_ssize_t, double*) noexcept nogil
    void scatter_float_int(
        const float*, const int*, Py_ssize_t, float*, Py_ssize_t, const float*) noexcept nogil
    void scatter_float_narrow(
        const float*, const narrow*, Py_ssize_t, float*, Py_ssize_t, const float*) noexcept nogil
    void scatter_double_int(
        const double*, const int*, Py_ssize_t, double*, Py_ssize_t, const double*) noexcept nogil
    void scatter_double_narrow(
        const double*, const narrow*, Py_ssize_t, double*, Py_ssize_t, const double*) noexcept nogil

# Of the columns of points; the shorter ones take half the memory.
ctypedef fused place:
    narrow
    int


def use_long_vectors(bint wanted):
    """Whether vectors of 32 bytes are taken: where they are wanted and the processor has them."""
    return bool(choose_vectors(wanted))


use_long_vectors(True)

# Rows that are asked for before their turn.
cdef enum:
    AHEAD = 2


def padded(Py_ssize_t n_labels):
    """The width of V: one tile if possible, for more labels as little padding as possible."""
    for tile in (4, 8, 16):
        if n_labels <= tile:
            return tile
    return (n_labels + 3) // 4 * 4


def zero_weights(Py_ssize_t d, Py_ssize_t n_labels, dtype):
    """V = 0, (d, width), at an address where tiles do not begin in the middle of a vector."""
    width = padded(n_labels)
    size = d * width * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(d, width)


cdef inline void gather(
    const floating* x, const place* j, Py_ssize_t n,
    const floating* V, Py_ssize_t width, floating* f,
) noexcept nogil:
    if floating is double:
        if place is int:
            gather_double_int(x, j, n, V, width, f)
        else:
            gather_double_narrow(x, j, n, V, width, f)
    else:
        if place is int:
            gather_float_int(x, j, n, V, width, f)
        else:
            gather_float_narrow(x, j, n, V, width, f)


cdef inline void scatter(
    const floating* x, const place* j, Py_ssize_t n,
    floating* V, Py_ssize_t width, const floating* c,
) noexcept nogil:
    if floating is double:
        if place is int:
            scatter_double_int(x, j, n, V, width, c)
        else:
            scatter_double_narrow(x, j, n, V, width, c)
    else:
        if place is int:
            scatter_float_int(x, j, n, V, width, c)
        else:
            scatter_float_narrow(x, j, n, V, width, c)


cdef inline void fetch_row(
    const floating[::1] data,
    const place[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    Py_ssize_t i,
) noexcept nogil:
    """Ask for a row before it is needed: rows are visited in an order no processor foresees."""
    cdef Py_ssize_t start = starts[i], size = stops[i] - starts[i]
    fetch(&data[start], size * sizeof(floating))
    if not dense:
        fetch(&columns[start], size * sizeof(place))


def sweep(
    const floating[::1] data,
    const place[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    floating[:, ::1] V,
    double[:, ::1] alpha,
    const Py_ssize_t[::1] y,
    const double[::1] caps,
    const double[::1] curvature,
    double delta,
    bint is_max,
    const Py_ssize_t[::1] order,
):
    """Minimise the blocks of the rows in `order`, one after the other; alpha and V follow.

    An interrupt ends it with an exception.
    """
    cdef Py_ssize_t L = alpha.shape[1], width = V.shape[1]
    cdef Py_ssize_t k, i, l, start, size, operations = 0
    cdef double q
    cdef bint moved
    cdef const place* j
    cdef double* old
    cdef double* a = <double*>malloc(3 * L * sizeof(double))
    cdef floating* f = <floating*>malloc(2 * width * sizeof(floating))
    if a == NULL or f == NULL:
        free(a)
        free(f)
        raise MemoryError()
    cdef double* b = a + L
    cdef floating* change = f + width
    try:
        with nogil:
            for l in range(width):
                change[l] = 0
            for k in range(order.shape[0]):
                if k + AHEAD < order.shape[0]:
                    i = order[k + AHEAD]
                    fetch_row(data, columns, starts, stops, dense, i)
                    fetch(&alpha[i, 0], L * sizeof(double))
                    fetch(&curvature[i], sizeof(double))
                i = order[k]
                start = starts[i]
                size = stops[i] - start
                j = &columns[0] if dense else &columns[start]
                gather(&data[start], j, size, &V[0, 0], width, f)
                old = &alpha[i, 0]
                q = curvature[i]
                for l in range(L):
                    b[l] = f[l] - q * old[l]
                row_block(b, L, i, y, q, caps[i], delta, is_max, a)
                moved = False
                for l in range(L):
                    moved = moved or a[l] != old[l]
                    change[l] = <floating>(a[l] - old[l])
                    old[l] = a[l]
                if moved:
                    scatter(&data[start], j, size, &V[0, 0], width, change)
                operations += (size + 1) * width
                operations = after_a_look(operations)
    finally:
        free(a)
        free(f)


cdef inline void collect(
    const floating* x, const place* j, Py_ssize_t size, floating* entries
) noexcept nogil:
    """The entries of a dense row in some columns."""
    cdef Py_ssize_t k
    for k in range(size):
        entries[k] = x[j[k]]


def weights(
    const double[::1] data,
    const place[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    bint indirect,
    const Py_ssize_t[::1] rows,
    const double[:, ::1] alpha,
    double[:, ::1] V,
):
    """V += X[rows]^T alpha, added up in this order; an interrupt ends it."""
    cdef Py_ssize_t i, k, l, size, d = V.shape[0], L = alpha.shape[1], width = V.shape[1]
    cdef Py_ssize_t operations = 0
    cdef bint used
    cdef const double* x
    cdef const place* j
    cdef double* a = <double*>malloc((width + d) * sizeof(double))
    if a == NULL:
        raise MemoryError()
    try:
        with nogil:
            for l in range(width):
                a[l] = 0.0
            for k in range(alpha.shape[0]):
                i = rows[k]
                used = False
                for l in range(L):
                    a[l] = alpha[k, l]
                    used = used or a[l] != 0.0
                if not used:
                    continue
                x = &data[i * d if indirect else starts[i]]
                j = &columns[0] if dense else &columns[starts[i]]
                size = stops[i] - starts[i]
                if indirect:
                    collect(x, j, size, a + width)
                    x = a + width
                scatter(x, j, size, &V[0, 0], width, a)
                operations += (size + 1) * width
                operations = after_a_look(operations)
    finally:
        free(a)


def decision_values(
    const floating[::1] data,
    const place[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    bint indirect,
    const floating[:, ::1] V,
    Py_ssize_t first,
    Py_ssize_t last,
    double[:, ::1] F,
):
    """F_i = x_i V for first <= i < last."""
    cdef Py_ssize_t i, l, size, d = V.shape[0], L = F.shape[1], width = V.shape[1]
    cdef const floating* x
    cdef const place* j
    cdef floating* f = <floating*>malloc((width + d) * sizeof(floating))
    if f == NULL:
        raise MemoryError()
    with nogil:
        for i in range(first, last):
            if i + AHEAD < last and not indirect:
                fetch_row(data, columns, starts, stops, dense, i + AHEAD)
            x = &data[i * d if indirect else starts[i]]
            j = &columns[0] if dense else &columns[starts[i]]
            size = stops[i] - starts[i]
            if indirect:
                collect(x, j, size, f + width)
                x = f + width
            gather(x, j, size, &V[0, 0], width, f)
            for l in range(L):
                F[i, l] = f[l]
    free(f)


def squared_norms(
    const floating[::1] data,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    Py_ssize_t first,
    Py_ssize_t last,
    double[::1] norms,
):
    """|x_i|^2 for first <= i < last."""
    cdef Py_ssize_t i, k
    cdef double total
    with nogil:
        for i in range(first, last):
            total = 0.0
            for k in range(starts[i], stops[i]):
                total += <double>data[k] * <double>data[k]
            norms[i] = total


def count_nonzeros(
    const double[:, ::1] X, Py_ssize_t first, Py_ssize_t last, Py_ssize_t[::1] counts
):
    """Entries that are not zero in row i of X, for first <= i < last."""
    cdef Py_ssize_t i, k, count
    with nogil:
        for i in range(first, last):
            count = 0
            for k in range(X.shape[1]):
                count += X[i, k] != 0.0
            counts[i] = count


def find_nonzeros(
    const double[:, ::1] X, Py_ssize_t first, Py_ssize_t last, const Py_ssize_t[::1] starts,
    place[::1] columns,
):
    """Write their columns, of row i from starts[i] on."""
    cdef Py_ssize_t i, k, count, d = X.shape[1]
    cdef place* places = <place*>malloc((d + 1) * sizeof(place))
    if places == NULL:
        raise MemoryError()
    with nogil:
        for i in range(first, last):
            # Zeros come in no order that a processor could guess, so there are no branches: a
            # place is always written and the count moved on only if the entry is not zero. The
            # last one may lie beyond the row's places, hence the room beside.
            count = 0
            for k in range(d):
                places[count] = <place>k
                count += X[i, k] != 0.0
            if count:
                memcpy(&columns[starts[i]], places, count * sizeof(place))
    free(places)


def collect_entries(
    const double[:, ::1] X,
    const place[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    Py_ssize_t first,
    Py_ssize_t last,
    floating[::1] data,
):
    """The entries of row i in those columns."""
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(first, last):
            for k in range(starts[i], stops[i]):
                data[k] = <floating>X[i, columns[k]]
