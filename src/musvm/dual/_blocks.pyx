"""One block of the dual in closed form.

With all other rows fixed, row i of the problem in `problem.py` is

    minimise over a    q/2 ||a||^2 + <b, a> + (its dual cost)    over its set,

with q = K_ii > 0 and b = F_i - q alpha_i. Stationarity makes every a_l a nondecreasing,
piecewise linear function of one multiplier lambda, and sum_l a_l = 0 fixes lambda:

    training    a_l = min(cap_l, (lambda - b_l) / q),   cap_l = cap [l = y],   b_y less 1
    universum   a_l = (z_l)_- / q + min(cap, (z_l - Delta)_+ / q),   z_l = lambda - b_l  ("sum")
    universum   the same without cap where that has 1/2 ||a||_1 <= cap, otherwise the positive
                and the negative parts are each a scaled simplex of total cap             ("max")

`box_block` is the Euclidean projection onto {sum_l a_l = total, lower <= a <= upper}.

Every root is found by Newton's method, which is finite on a piecewise linear function; where the
function is neither convex nor concave a bracket guards it. Bounds are met exactly, so that the
caller can tell a label at a bound from one near it.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin

import numpy as np

# Newton on L pieces takes a handful of steps; in the worst case the bracket halves, and 200
# halvings exhaust the doubles between any two ends.
cdef enum:
    MAX_NEWTON = 200


cdef double simplex_threshold(
    const double* v, Py_ssize_t L, double sign, double total
) noexcept nogil:
    """lambda with sum_l max(sign v_l - lambda, 0) = total > 0 (Michelot: monotone, finite)."""
    cdef double threshold = -INFINITY, previous, s
    cdef Py_ssize_t l, count
    while True:
        previous = threshold
        s = 0.0
        count = 0
        for l in range(L):
            if sign * v[l] > previous:
                s += sign * v[l]
                count += 1
        if count == 0:
            return previous
        threshold = (s - total) / count
        if threshold <= previous:
            return previous if previous > threshold else threshold


cdef void absorb_rounding(double* a, Py_ssize_t L, double cap) noexcept nogil:
    """Make a sum to zero to the last digit by shifting its most negative entry."""
    cdef double s = 0.0
    cdef Py_ssize_t l, lowest = 0
    for l in range(L):
        s += a[l]
        if a[l] < a[lowest]:
            lowest = l
    if a[lowest] < 0.0:
        a[lowest] = fmin(a[lowest] - s, 0.0)


cdef void training_block(
    const double* b, Py_ssize_t L, Py_ssize_t y, double q, double cap, double* a
) noexcept nogil:
    # With s = cap_l - a_l >= 0 this is a simplex of total cap. `a` holds q cap_l + b_l first.
    cdef Py_ssize_t l
    cdef double threshold, s = 0.0
    for l in range(L):
        a[l] = b[l]
    a[y] += q * cap - 1.0
    threshold = simplex_threshold(a, L, 1.0, q * cap)
    cdef bint capped = a[y] <= threshold
    for l in range(L):
        if l != y:
            a[l] = -fmin(fmax(a[l] - threshold, 0.0) / q, cap)
            s -= a[l]
    a[y] = cap if capped else fmin(s, cap)
    if capped:
        absorb_rounding(a, L, cap)


cdef inline double universum_label(double z, double q, double cap, double delta) noexcept nogil:
    if z < 0.0:
        return z / q
    if z > delta:
        return fmin((z - delta) / q, cap)
    return 0.0


cdef void universum_sum(
    const double* b, Py_ssize_t L, double q, double cap, double delta, double* a
) noexcept nogil:
    cdef double low = b[0], high = b[0], lam, h, slope, z, step
    cdef Py_ssize_t l, iteration
    for l in range(1, L):
        low = fmin(low, b[l])
        high = fmax(high, b[l])
    if high - low <= delta:
        for l in range(L):
            a[l] = 0.0
        return
    high += delta
    lam = 0.5 * (low + high)
    for iteration in range(MAX_NEWTON):
        h = 0.0
        slope = 0.0
        for l in range(L):
            z = lam - b[l]
            a[l] = universum_label(z, q, cap, delta)
            h += a[l]
            if z < 0.0 or (z > delta and a[l] < cap):
                slope += 1.0
        if h == 0.0:
            break
        if h < 0.0:
            low = lam
        else:
            high = lam
        step = lam - h * q / slope if slope > 0.0 else INFINITY
        if not (low < step < high):
            if fabs(step - lam) <= 4e-16 * fmax(fabs(low), fabs(high)):
                break
            step = 0.5 * (low + high)
        if step == lam:
            break
        lam = step
    absorb_rounding(a, L, cap)


cdef void universum_block(
    const double* b, Py_ssize_t L, double q, double cap, double delta, bint is_max, double* a
) noexcept nogil:
    cdef double positive = 0.0, threshold
    cdef Py_ssize_t l
    if not is_max:
        universum_sum(b, L, q, cap, delta, a)
        return
    universum_sum(b, L, q, INFINITY, delta, a)
    for l in range(L):
        positive += fmax(a[l], 0.0)
    if positive <= cap:
        return
    threshold = simplex_threshold(b, L, -1.0, q * cap)
    for l in range(L):
        a[l] = fmax(-b[l] - threshold, 0.0) / q
    threshold = simplex_threshold(b, L, 1.0, q * cap)
    for l in range(L):
        if b[l] > threshold:
            a[l] = -(b[l] - threshold) / q
    absorb_rounding(a, L, cap)


cdef void box_block(
    const double* target, const double* lower, const double* upper, Py_ssize_t k,
    double total, double* a
) noexcept nogil:
    # a_l = clip(target_l + lambda, lower_l, upper_l), the bounds finite.
    cdef double low = INFINITY, high = -INFINITY, lam = 0.0, h, slope, step
    cdef Py_ssize_t l, iteration
    for l in range(k):
        low = fmin(low, lower[l] - target[l])
        high = fmax(high, upper[l] - target[l])
    for iteration in range(MAX_NEWTON):
        h = -total
        slope = 0.0
        for l in range(k):
            a[l] = target[l] + lam
            if a[l] <= lower[l]:
                a[l] = lower[l]
            elif a[l] >= upper[l]:
                a[l] = upper[l]
            else:
                slope += 1.0
            h += a[l]
        if h == 0.0:
            return
        if h < 0.0:
            low = lam
        else:
            high = lam
        step = lam - h / slope if slope > 0.0 else INFINITY
        if not (low < step < high):
            step = 0.5 * (low + high)
        if step == lam or high - low <= 4e-16 * fmax(fabs(low), fabs(high)):
            return
        lam = step


def solve_block(const double[::1] b, double q, double cap, Py_ssize_t y=-1,
                double delta=0.0, bint is_max=False):
    """The minimiser for one row, for the tests: training if y >= 0, universum otherwise."""
    a = np.empty(len(b))
    cdef double[::1] view = a
    if y >= 0:
        training_block(&b[0], len(b), y, q, cap, &view[0])
    else:
        universum_block(&b[0], len(b), q, cap, delta, is_max, &view[0])
    return a


def project_box(const double[::1] target, const double[::1] lower, const double[::1] upper,
                double total):
    """The projection onto {sum = total, lower <= a <= upper}, for the tests."""
    a = np.empty(len(target))
    cdef double[::1] view = a
    box_block(&target[0], &lower[0], &upper[0], len(target), total, &view[0])
    return a
