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
    const double* f, const double* a, Py_ssize_t L, Py_ssize_t y, double cap
) noexcept nogil

cdef double universum_violation(
    const double* f, const double* a, Py_ssize_t L, double cap, double delta, bint is_max
) noexcept nogil
