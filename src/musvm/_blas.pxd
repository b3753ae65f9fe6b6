"""Lower Cholesky factors, and what is done with them, for code without Python.

Matrices are in Fortran order, ld entries from one column to the next.
"""

cdef int factor(int n, double* A, int lda) noexcept nogil
cdef void divide(int m, int n, const double* L, int ldl, double* B, int ldb) noexcept nogil
cdef void invert_lower(int n, double* L, int ldl) noexcept nogil
cdef void square_lower(int n, double* X, int ldx) noexcept nogil
