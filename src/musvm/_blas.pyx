"""Calls of BLAS and LAPACK that let other threads of Python go on, on parts of one matrix.

Matrices are Fortran-ordered, or parts of such. Of symmetric ones only the lower triangle is written
and read.
"""

from scipy.linalg.cython_blas cimport dgemm, dsyrk, dtrsm
from scipy.linalg.cython_lapack cimport dpotrf


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
            dpotrf("L", &n, &A[0, 0], &lda, &info)
    return info == 0


def divide_part(double[:, :] B, const double[:, :] L):
    """B L'^-1 in place of B, for a lower factor L."""
    cdef int m = <int>B.shape[0], n = <int>B.shape[1], ldb = leading(B), ldl = leading(L)
    cdef double one = 1.0
    if m > 0 and n > 0:
        with nogil:
            dtrsm("R", "L", "T", "N", &m, &n, &one, <double*>&L[0, 0], &ldl, &B[0, 0], &ldb)


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
