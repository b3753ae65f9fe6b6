"""Digests of rows of doubles, given as their bits; `_digests.py` has the definition."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

ctypedef fused column:
    int32_t
    int64_t

cdef extern from *:
    """
    #include <stdint.h>

    static inline uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
        return z ^ (z >> 31);
    }

    /* The two words that an entry adds. */
    static inline uint64_t first_word(uint64_t bits, uint64_t column) {
        return mix(bits ^ (column + 1) * UINT64_C(0x9E3779B97F4A7C15));
    }
    static inline uint64_t second_word(uint64_t bits, uint64_t column) {
        return mix(bits ^ (column + 1) * UINT64_C(0xD1342543DE82EF95));
    }
    """
    uint64_t first_word(uint64_t, uint64_t) noexcept nogil
    uint64_t second_word(uint64_t, uint64_t) noexcept nogil


cdef inline bint is_zero(int64_t bits) noexcept nogil:
    """0.0 or -0.0."""
    return (<uint64_t>bits << 1) == 0


def hash_dense(
    const int64_t[:, ::1] bits, Py_ssize_t first, Py_ssize_t last, int64_t[:, ::1] digests
):
    """The digests of the rows first <= i < last."""
    cdef Py_ssize_t i, k, count, d = bits.shape[1]
    cdef uint64_t a, b
    cdef const int64_t* x
    # Places of entries that are not zero. Each is written and the count moved on only if the
    # entry counts: no branches, where zeros come in no order that a processor could guess.
    cdef Py_ssize_t* places = <Py_ssize_t*>malloc((d + 1) * sizeof(Py_ssize_t))
    if places == NULL:
        raise MemoryError()
    with nogil:
        for i in range(first, last):
            x = &bits[i, 0]
            count = 0
            for k in range(d):
                places[count] = k
                count += not is_zero(x[k])
            a = b = 0
            for k in range(count):
                a += first_word(x[places[k]], places[k])
                b += second_word(x[places[k]], places[k])
            digests[i, 0], digests[i, 1] = <int64_t>a, <int64_t>b
    free(places)


def hash_compressed(
    const int64_t[::1] bits,
    const column[::1] columns,
    const int64_t[::1] starts,
    Py_ssize_t first,
    Py_ssize_t last,
    int64_t[:, ::1] digests,
):
    """The same of compressed rows: the bits of entries, their columns, and where rows start."""
    cdef Py_ssize_t i, k
    cdef uint64_t a, b
    with nogil:
        for i in range(first, last):
            a = b = 0
            for k in range(starts[i], starts[i + 1]):
                if not is_zero(bits[k]):
                    a += first_word(bits[k], columns[k])
                    b += second_word(bits[k], columns[k])
            digests[i, 0], digests[i, 1] = <int64_t>a, <int64_t>b
