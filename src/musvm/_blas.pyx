"""Factors and products of matrices without Python, so that other threads go on meanwhile.

Matrices are Fortran-ordered, or parts of such. Of symmetric ones only the lower triangle is written
and read.

All is done by halves, most of it by products of matrices, which reach the rate of the processor;
triangular solves of OpenBLAS reach a third of it. With L the lower factor of A and X = L^-1,

    L_21 = A_21 L_11'^-1,    L_22 L_22' = A_22 - L_21 L_21';
    B_1 = B_1 L_11'^-1,      B_2 = (B_2 - B_1 L_21') L_22'^-1;
    X_21 = -X_22 L_21 X_11;
    (X'X)_11 = X_11' X_11 + X_21' X_21,    (X'X)_21 = X_22' X_21.
"""

from scipy.linalg.cython_blas cimport dgemm, dsyrk, dtrmm, dtrsm
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

# Up to so many rows and columns in one call.
cdef enum:
    IN_ONE_CALL = 48


cdef int factor(int n, double* A, int lda) noexcept nogil:
    """The lower Cholesky factor of A in its place; not 0, and A is spoiled, if it has none."""
    cdef int info = 0, half = n // 2, rest = n - n // 2
    cdef double one = 1.0, minus = -1.0
    if n <= IN_ONE_CALL:
        dpotrf("L", &n, A, &lda, &info)
        return info
    cdef double* below = A + half
    cdef double* last = below + <Py_ssize_t>half * lda
    if factor(half, A, lda):
        return 1
    divide(rest, half, A, lda, below, lda)
    dsyrk("L", "N", &rest, &half, &minus, below, &lda, &one, last, &lda)
    return factor(rest, last, lda)


cdef void divide(int m, int n, const double* L, int ldl, double* B, int ldb) noexcept nogil:
    """B L'^-1 in place of B, which has m rows, for a lower factor L."""
    cdef int half = n // 2, rest = n - n // 2
    cdef double one = 1.0, minus = -1.0
    if n <= IN_ONE_CALL:
        dtrsm("R", "L", "T", "N", &m, &n, &one, <double*>L, &ldl, B, &ldb)
        return
    cdef double* second = B + <Py_ssize_t>half * ldb
    cdef double* below = <double*>L + half
    divide(m, half, L, ldl, B, ldb)
    dgemm("N", "T", &m, &rest, &half, &minus, B, &ldb, below, &ldl, &one, second, &ldb)
    divide(m, rest, below + <Py_ssize_t>half * ldl, ldl, second, ldb)


cdef void invert_lower(int n, double* L, int ldl) noexcept nogil:
    """L^-1 in place of L."""
    cdef int info = 0, half = n // 2, rest = n - n // 2
    cdef double one = 1.0, minus = -1.0
    if n <= IN_ONE_CALL:
        dtrtri("L", "N", &n, L, &ldl, &info)
        return
    cdef double* below = L + half
    cdef double* last = below + <Py_ssize_t>half * ldl
    invert_lower(half, L, ldl)
    invert_lower(rest, last, ldl)
    dtrmm("R", "L", "N", "N", &rest, &half, &minus, L, &ldl, below, &ldl)
    dtrmm("L", "L", "N", "N", &rest, &half, &one, last, &ldl, below, &ldl)


cdef void square_lower(int n, double* X, int ldx) noexcept nogil:
    """The lower triangle of X'X in place of a lower triangle X."""
    cdef int info = 0, half = n // 2, rest = n - n // 2
    cdef double one = 1.0
    if n <= IN_ONE_CALL:
        dlauum("L", &n, X, &ldx, &info)
        return
    cdef double* below = X + half
    cdef double* last = below + <Py_ssize_t>half * ldx
    square_lower(half, X, ldx)
    dsyrk("L", "T", &half, &rest, &one, below, &ldx, &one, X, &ldx)
    dtrmm("L", "L", "T", "N", &rest, &half, &one, last, &ldx, below, &ldx)
    square_lower(rest, last, ldx)


cdef int leading(const double[:, :] A) except -1:
    """From one column to the next, in entries."""
    if A.shape[0] > 1 and A.strides[0] != <Py_ssize_t>sizeof(double):
        raise ValueError("the matrix is not Fortran-ordered")
    # Of a single column NumPy tells no more than the size of an entry.
    return <int>max(A.strides[1] // <Py_ssize_t>sizeof(double), A.shape[0], 1)


def factor_whole(double[:, :] A):
    """The lower Cholesky factor of A in its place; False, and A is spoiled, if it has none."""
    cdef int n = <int>A.shape[0], lda = leading(A), info = 0
    if n > 0:
        with nogil:
            info = factor(n, &A[0, 0], lda)
    return info == 0


def divide_part(double[:, :] B, const double[:, :] L):
    """B L'^-1 in place of B, for a lower factor L."""
    cdef int m = <int>B.shape[0], n = <int>B.shape[1], ldb = leading(B), ldl = leading(L)
    if m > 0 and n > 0:
        with nogil:
            divide(m, n, &L[0, 0], ldl, &B[0, 0], ldb)


def subtract_part(double[:, :] C, const double[:, :] V):
    """C - V V_w' in place of C, the first w columns of a matrix: V_w are the first w rows of V."""
    cdef int w = <int>C.shape[1], m = <int>(C.shape[0] - C.shape[1]), k = <int>V.shape[1]
    cdef int ldc = leading(C), ldv = leading(V)
    cdef double one = 1.0, minus = -1.0
    cdef double* v = <double*>&V[0, 0] if k > 0 and w > 0 else NULL
    if v == NULL:
        return
    with nogil:
        dsyrk("L", "N", &w, &k, &minus, v, &ldv, &one, &C[0, 0], &ldc)
        if m > 0:
            dgemm("N", "T", &m, &w, &k, &minus, v + w, &ldv, v, &ldv, &one, &C[w, 0], &ldc)
