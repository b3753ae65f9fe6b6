"""Block descent that keeps the weights V = X^T alpha, (d, L), in place of a Gram matrix.

The decision values of one point are a product with its row, F_i = x_i V; after its block is
minimised (`_blocks.pyx`), V += x_i^T (change of alpha_i). Each costs one pass over the nonzero
entries of x_i.

Points are compressed rows, of floats or doubles: the entries of row i are data[starts[i]:stops[i]],
in the `columns` of the same places. If all rows have all d columns (`dense`), `columns` lists them
once; where most of those entries are zero, products can look for the others first (`scan`). V has one row per feature, padded with zeros to `width`, a multiple of LANES labels: short
loops without remainder, which compilers turn into vector instructions.
"""

from cython cimport floating
from libc.stdlib cimport free, malloc

import numpy as np

from musvm.dual._blocks cimport training_block, universum_block

# The products are in C for `restrict`: without it no compiler vectorises them. Four entries of a
# row at a time make the chain of additions short.
cdef extern from *:
    """
    #define LANES 4
    #if defined(__GNUC__)
    #define FETCH(address) __builtin_prefetch(address)
    #else
    #define FETCH(address) (void)(address)
    #endif

    static void fetch(const void* start, ptrdiff_t n_bytes) {
        for (ptrdiff_t k = 0; k < n_bytes; k += 64) FETCH((const char*)start + k);
    }

    #define DEFINE_PRODUCTS(real, gather, scatter) \\
    static void gather( \\
        const real* restrict x, const int* restrict j, ptrdiff_t n, \\
        const real* restrict V, ptrdiff_t width, real* restrict f \\
    ) { \\
        ptrdiff_t k = 0, l; \\
        width = width / LANES * LANES; \\
        for (l = 0; l < width; l++) f[l] = 0; \\
        for (; k + 3 < n; k += 4) { \\
            const real* restrict u0 = V + j[k] * width; \\
            const real* restrict u1 = V + j[k + 1] * width; \\
            const real* restrict u2 = V + j[k + 2] * width; \\
            const real* restrict u3 = V + j[k + 3] * width; \\
            const real x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3]; \\
            for (l = 0; l < width; l++) \\
                f[l] += (x0 * u0[l] + x1 * u1[l]) + (x2 * u2[l] + x3 * u3[l]); \\
        } \\
        for (; k < n; k++) { \\
            const real* restrict u = V + j[k] * width; \\
            for (l = 0; l < width; l++) f[l] += x[k] * u[l]; \\
        } \\
    } \\
    static void scatter( \\
        const real* restrict x, const int* restrict j, ptrdiff_t n, \\
        real* restrict V, ptrdiff_t width, const real* restrict c \\
    ) { \\
        width = width / LANES * LANES; \\
        for (ptrdiff_t k = 0; k < n; k++) { \\
            real* restrict u = V + j[k] * width; \\
            const real xk = x[k]; \\
            for (ptrdiff_t l = 0; l < width; l++) u[l] += xk * c[l]; \\
        } \\
    }
    DEFINE_PRODUCTS(float, gather_floats, scatter_floats)
    DEFINE_PRODUCTS(double, gather_doubles, scatter_doubles)
    """
    int LANES
    void fetch(const void*, Py_ssize_t) noexcept nogil
    void gather_floats(
        const float*, const int*, Py_ssize_t, const float*, Py_ssize_t, float*) noexcept nogil
    void gather_doubles(
        const double*, const int*, Py_ssize_t, const double*, Py_ssize_t, double*) noexcept nogil
    void scatter_floats(
        const float*, const int*, Py_ssize_t, float*, Py_ssize_t, const float*) noexcept nogil
    void scatter_doubles(
        const double*, const int*, Py_ssize_t, double*, Py_ssize_t, const double*) noexcept nogil


# Rows that are asked for before their turn.
cdef enum:
    AHEAD = 2


def padded(Py_ssize_t n_labels):
    """The width of V."""
    return (n_labels + LANES - 1) // LANES * LANES


cdef inline void gather(
    const floating* x, const int* j, Py_ssize_t n, const floating* V, Py_ssize_t width, floating* f
) noexcept nogil:
    if floating is double:
        gather_doubles(x, j, n, V, width, f)
    else:
        gather_floats(x, j, n, V, width, f)


cdef inline void scatter(
    const floating* x, const int* j, Py_ssize_t n, floating* V, Py_ssize_t width, const floating* c
) noexcept nogil:
    if floating is double:
        scatter_doubles(x, j, n, V, width, c)
    else:
        scatter_floats(x, j, n, V, width, c)


cdef inline void fetch_row(
    const floating[::1] data,
    const int[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    Py_ssize_t i,
) noexcept nogil:
    """Ask for a row before it is needed: rows are visited in an order no processor foresees."""
    cdef Py_ssize_t start = starts[i], size = stops[i] - starts[i]
    fetch(&data[start], size * sizeof(floating))
    if not dense:
        fetch(&columns[start], size * sizeof(int))


def sweep(
    const floating[::1] data,
    const int[::1] columns,
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
    """Minimise the blocks of the rows in `order`, one after the other; alpha and V follow."""
    cdef Py_ssize_t n = y.shape[0], L = alpha.shape[1], width = V.shape[1]
    cdef Py_ssize_t k, i, l, start, size
    cdef double q
    cdef bint moved
    cdef const int* j
    cdef double* old
    cdef double* a = <double*>malloc(3 * L * sizeof(double))
    cdef floating* f = <floating*>malloc(2 * width * sizeof(floating))
    if a == NULL or f == NULL:
        free(a)
        free(f)
        raise MemoryError()
    cdef double* b = a + L
    cdef floating* change = f + width
    with nogil:
        for l in range(width):
            change[l] = 0
        for k in range(order.shape[0]):
            if k + AHEAD < order.shape[0]:
                fetch_row(data, columns, starts, stops, dense, order[k + AHEAD])
            i = order[k]
            start = starts[i]
            size = stops[i] - start
            j = &columns[0] if dense else &columns[start]
            gather(&data[start], j, size, &V[0, 0], width, f)
            old = &alpha[i, 0]
            q = curvature[i]
            for l in range(L):
                b[l] = f[l] - q * old[l]
            if i < n:
                training_block(b, L, y[i], q, caps[i], a)
            else:
                universum_block(b, L, q, caps[i], delta, is_max, a, b + L)
            moved = False
            for l in range(L):
                moved = moved or a[l] != old[l]
                change[l] = <floating>(a[l] - old[l])
                old[l] = a[l]
            if moved:
                scatter(&data[start], j, size, &V[0, 0], width, change)
    free(a)
    free(f)


cdef inline Py_ssize_t find_nonzeros(
    const floating* x, Py_ssize_t d, int* places
) noexcept nogil:
    """Write the columns of the entries that are not zero, and room for one more; their number.

    Zeros come in no order that a processor could guess, so there are no branches: a place is
    always written and the count moved on only if the entry is not zero.
    """
    cdef Py_ssize_t k, count = 0
    for k in range(d):
        places[count] = <int>k
        count += x[k] != 0.0
    return count


cdef inline Py_ssize_t pack(
    const floating* x, Py_ssize_t d, floating* entries, int* places
) noexcept nogil:
    """The entries that are not zero as well."""
    cdef Py_ssize_t k, count = find_nonzeros(x, d, places)
    for k in range(count):
        entries[k] = x[places[k]]
    return count


def weights(
    const double[::1] data,
    const int[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    bint scan,
    const double[:, ::1] alpha,
    double[:, ::1] V,
):
    """V += X^T alpha."""
    cdef Py_ssize_t i, l, size, d = V.shape[0], L = alpha.shape[1], width = V.shape[1]
    cdef bint used
    cdef const double* x
    cdef const int* j
    cdef double* a = <double*>malloc((width + d) * sizeof(double))
    cdef int* places = <int*>malloc((d + 1) * sizeof(int))
    if a == NULL or places == NULL:
        free(a)
        free(places)
        raise MemoryError()
    with nogil:
        for l in range(width):
            a[l] = 0.0
        for i in range(alpha.shape[0]):
            used = False
            for l in range(L):
                a[l] = alpha[i, l]
                used = used or a[l] != 0.0
            if not used:
                continue
            x = &data[starts[i]]
            j = &columns[0] if dense else &columns[starts[i]]
            size = stops[i] - starts[i]
            if scan:
                size = pack(x, size, a + width, places)
                x, j = a + width, places
            scatter(x, j, size, &V[0, 0], width, a)
    free(a)
    free(places)


def decision_values(
    const floating[::1] data,
    const int[::1] columns,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] stops,
    bint dense,
    bint scan,
    const floating[:, ::1] V,
    Py_ssize_t first,
    Py_ssize_t last,
    double[:, ::1] F,
):
    """F_i = x_i V for first <= i < last."""
    cdef Py_ssize_t i, l, size, d = V.shape[0], L = F.shape[1], width = V.shape[1]
    cdef const floating* x
    cdef const int* j
    cdef floating* f = <floating*>malloc((width + d) * sizeof(floating))
    cdef int* places = <int*>malloc((d + 1) * sizeof(int))
    if f == NULL or places == NULL:
        free(f)
        free(places)
        raise MemoryError()
    with nogil:
        for i in range(first, last):
            if i + AHEAD < last:
                fetch_row(data, columns, starts, stops, dense, i + AHEAD)
            x = &data[starts[i]]
            j = &columns[0] if dense else &columns[starts[i]]
            size = stops[i] - starts[i]
            if scan:
                size = pack(x, size, f + width, places)
                x, j = f + width, places
            gather(x, j, size, &V[0, 0], width, f)
            for l in range(L):
                F[i, l] = f[l]
    free(f)
    free(places)


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


def compress(
    const double[:, ::1] X, Py_ssize_t first, Py_ssize_t last, const Py_ssize_t[::1] starts,
    floating[::1] data, int[::1] columns,
):
    """Write those of row i, and their columns, from starts[i] on."""
    cdef Py_ssize_t i, k, count, start, d = X.shape[1]
    cdef int* places = <int*>malloc((d + 1) * sizeof(int))
    if places == NULL:
        raise MemoryError()
    with nogil:
        for i in range(first, last):
            count = find_nonzeros(&X[i, 0], d, places)
            start = starts[i]
            for k in range(count):
                data[start + k] = <floating>X[i, places[k]]
                columns[start + k] = places[k]
    free(places)
