cdef void training_block(
    double* b, Py_ssize_t L, Py_ssize_t y, double q, double cap, double* a
) noexcept nogil

cdef void universum_block(
    const double* b, Py_ssize_t L, double q, double cap, double delta, bint is_max, double* a,
    double* scratch
) noexcept nogil

cdef void box_block(
    const double* target, const double* lower, const double* upper, Py_ssize_t k,
    double total, double* a
) noexcept nogil

cdef double training_violation(
    const double* f, const double* a, Py_ssize_t L, Py_ssize_t y, double cap, double tiny
) noexcept nogil

cdef double universum_violation(
    const double* f, const double* a, Py_ssize_t L, double cap, double delta, bint is_max,
    double tiny
) noexcept nogil


cdef inline double larger(double a, double b) noexcept nogil:
    """b if a is not a number. One instruction, where fmax of the library is a call."""
    return a if a > b else b


cdef inline double smaller(double a, double b) noexcept nogil:
    """b if a is not a number."""
    return a if a < b else b


cdef double at_bound(double cap, double largest) noexcept nogil

cdef double largest_entry(const double* a, Py_ssize_t n) noexcept nogil


cdef inline void row_block(
    double* b, Py_ssize_t L, Py_ssize_t i, const Py_ssize_t[::1] y, double q, double cap,
    double delta, bint is_max, double* a
) noexcept nogil:
    """The block of row i, training rows first; b has room for L scratch numbers behind it."""
    if i < y.shape[0]:
        training_block(b, L, y[i], q, cap, a)
    else:
        universum_block(b, L, q, cap, delta, is_max, a, b + L)


cdef inline double row_violation(
    const double* f, const double* a, Py_ssize_t L, Py_ssize_t i, const Py_ssize_t[::1] y,
    double cap, double delta, bint is_max, double largest
) noexcept nogil:
    """The violation of row i, training rows first; `largest` is that entry of all of alpha."""
    cdef double tiny = at_bound(cap, largest)
    if i < y.shape[0]:
        return training_violation(f, a, L, y[i], cap, tiny)
    return universum_violation(f, a, L, cap, delta, is_max, tiny)
