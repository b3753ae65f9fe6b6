"""Ctrl-C in compiled loops: an interrupt is looked for every few hundredths of a second."""

from cpython.exc cimport PyErr_CheckSignals

cdef enum:
    OPERATIONS_A_LOOK = 1 << 26


cdef inline Py_ssize_t after_a_look(Py_ssize_t operations) except -1 nogil:
    """The operations since the last look, which takes place once there are enough of them."""
    if operations <= OPERATIONS_A_LOOK:
        return operations
    with gil:
        PyErr_CheckSignals()
    return 0
