"""One block of the dual in closed form.

With all other rows fixed, row i of the problem in `problem.py` is

    minimise over a    q/2 ||a||^2 + <b, a> + (its dual cost)    over its set,

with q = K_ii > 0 and b = F_i - q alpha_i. Stationarity makes every a_l a nondecreasing,
piecewise linear function of one multiplier lambda, and sum_l a_l = 0 fixes lambda:

    training    a_l = min(cap_l, (lambda - b_l) / q),   cap_l = cap [l = y],   b_y less 1
    universum   a_l = (z_l)_- / q + min(cap, (z_l - Delta)_+ / q),   z_l = lambda - b_l  ("sum")
    universum   the same without cap where that has 1/2 ||a||_1 <= cap, otherwise the positive
                and the negative parts are each a scaled simplex of total cap             ("max")

The violation of a row is the steepest slope at which mass can still move from one label to
another: `kkt_violations` of `problem.py`, one row at a time.

`box_block` is the Euclidean projection onto {sum_l a_l = total, lower <= a <= upper}.

Every root is found by Newton's method, which is finite on a piecewise linear function; where the
function is neither convex nor concave a bracket guards it. Bounds are met exactly, so that the
caller can tell a label at a bound from one near it.
"""

from libc.math cimport INFINITY, fabs

# Newton on L pieces takes a handful of steps; in the worst case the bracket halves, and 200
# halvings exhaust the doubles between any two ends.
cdef enum:
    MAX_NEWTON = 200

cdef double AT_BOUND = 1e-12


cdef double at_bound(double cap, double largest) noexcept nogil:
    """How close to a bound counts as being there: `at_bound` of `problem.py`, for one row."""
    return AT_BOUND * smaller(cap, largest)


cdef double largest_entry(const double* a, Py_ssize_t n) noexcept nogil:
    cdef double largest = 0.0
    cdef Py_ssize_t l
    for l in range(n):
        largest = larger(fabs(a[l]), largest)
    return largest


cdef void simplex(
    const double* v, Py_ssize_t L, double sign, double q, double cap, double* mass
) noexcept nogil:
    """mass_l = max(sign v_l - lambda, 0) / q with sum_l mass_l = cap (Michelot: finite).

    Everything is relative to the largest sign v_l, whose mass is never 0, so that a cap far
    below the rounding of v still comes out right. That mass is the cap at most, which bounds
    lambda from below: where one label leads by far, no other is looked at twice.
    """
    cdef double top = -INFINITY, threshold = -q * cap if q * cap > 0.0 else -INFINITY, previous, s
    cdef Py_ssize_t l, count
    for l in range(L):
        top = larger(sign * v[l], top)
    for l in range(L):
        mass[l] = sign * v[l] - top
    while True:
        previous = threshold
        s = 0.0
        count = 0
        for l in range(L):
            if mass[l] > previous:
                s += mass[l]
                count += 1
        threshold = smaller((s - q * cap) / count, 0.0)
        if threshold <= previous:
            break
    s = 0.0
    for l in range(L):
        mass[l] = larger(mass[l] - previous, 0.0)
        s += mass[l]
    for l in range(L):
        # s is 0 only if q cap vanishes next to 1e-308: any point of the simplex will do.
        mass[l] = mass[l] / s * cap if s > 0.0 else cap / L


cdef void absorb_rounding(double* a, Py_ssize_t L) noexcept nogil:
    """Make a sum to zero to the last digit by shifting its most negative entry."""
    cdef double s = 0.0
    cdef Py_ssize_t l, lowest = 0
    for l in range(L):
        s += a[l]
        if a[l] < a[lowest]:
            lowest = l
    if a[lowest] < 0.0:
        a[lowest] = smaller(a[lowest] - s, 0.0)


cdef void training_block(
    double* b, Py_ssize_t L, Py_ssize_t y, double q, double cap, double* a
) noexcept nogil:
    # Without the cap on the own label: lambda = b_y + rise, with b_y less 1, and the rise solves
    # rise = sum_l max(b_l - b_y - rise, 0). Newton from 0 goes up, piece by piece; what it left
    # behind takes no part any more. Differences keep the digits that a huge cap would swallow.
    cdef double own = b[y] - 1.0, rise = 0.0, excess, s
    cdef Py_ssize_t l, n = 0, n_before = -1
    # The own label never takes part; without a branch for it, or for the others, which no
    # processor could guess.
    b[y] = -INFINITY
    for l in range(L):
        a[n] = excess = b[l] - own
        n += excess > 0.0
    while 0 < n != n_before:
        s = 0.0
        for l in range(n):
            s += a[l]
        if s / (n + 1) > rise:
            rise = s / (n + 1)
        if rise > q * cap:
            break
        n_before = n
        n = 0
        for l in range(n_before):
            a[n] = excess = a[l]
            n += excess > rise
    if rise > q * cap:
        # The own label is at its cap, and the others share it out.
        simplex(b, L, 1.0, q, cap, a)
        for l in range(L):
            a[l] = -a[l]
        a[y] = cap
        return
    s = 0.0
    for l in range(n):
        s += (a[l] - rise) / q
    for l in range(L):
        a[l] = 0.0 - larger(b[l] - own - rise, 0.0) / q
    a[y] = smaller(s, cap)


cdef inline double universum_label(double z, double q, double cap, double delta) noexcept nogil:
    if z < 0.0:
        return z / q
    if z > delta:
        return smaller((z - delta) / q, cap)
    return 0.0


cdef void universum_sum(
    const double* b, Py_ssize_t L, double q, double cap, double delta, double* a
) noexcept nogil:
    # lambda = top - depth, with top the largest b_l: its label takes at most the (L - 1) cap that
    # the others give, so the depth is at most (L - 1) q cap and keeps its digits when that is far
    # below the rounding of b.
    cdef double top = b[0], spread = 0.0, low = 0.0, high, depth, h, slope, z, step
    cdef Py_ssize_t l, iteration, n_beyond = 0
    for l in range(1, L):
        top = larger(b[l], top)
    for l in range(L):
        spread = larger(top - b[l], spread)
        n_beyond += top - b[l] > delta
    if spread <= delta:
        for l in range(L):
            a[l] = 0.0
        return
    high = smaller(spread, (L - 1) * q * cap)
    # Where caps are small, labels whose b is below the top by more than delta are at theirs.
    depth = n_beyond * q * cap if high < spread else 0.5 * high
    for iteration in range(MAX_NEWTON):
        h = 0.0
        slope = 0.0
        for l in range(L):
            z = (top - b[l]) - depth
            a[l] = universum_label(z, q, cap, delta)
            h += a[l]
            if z < 0.0 or (z > delta and a[l] < cap):
                slope += 1.0
        if h == 0.0:
            break
        if h > 0.0:
            low = depth
        else:
            high = depth
        step = depth + h * q / slope if slope > 0.0 else INFINITY
        if fabs(step - depth) <= 4e-16 * depth:
            break
        if not (low < step < high):
            step = 0.5 * (low + high)
        if step == depth:
            break
        depth = step
    absorb_rounding(a, L)


cdef void universum_block(
    const double* b, Py_ssize_t L, double q, double cap, double delta, bint is_max, double* a,
    double* scratch
) noexcept nogil:
    cdef double positive = 0.0
    cdef Py_ssize_t l
    if not is_max:
        universum_sum(b, L, q, cap, delta, a)
        return
    universum_sum(b, L, q, INFINITY, delta, a)
    for l in range(L):
        positive += larger(a[l], 0.0)
    if positive <= cap:
        return
    simplex(b, L, -1.0, q, cap, a)
    simplex(b, L, 1.0, q, cap, scratch)
    for l in range(L):
        a[l] -= scratch[l]


cdef void box_block(
    const double* target, const double* lower, const double* upper, Py_ssize_t k,
    double total, double* a
) noexcept nogil:
    # a_l = clip(target_l + lambda, lower_l, upper_l), the bounds finite.
    cdef double low = INFINITY, high = -INFINITY, lam = 0.0, h, slope, step
    cdef Py_ssize_t l, iteration
    for l in range(k):
        low = smaller(lower[l] - target[l], low)
        high = larger(upper[l] - target[l], high)
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
        if step == lam or high - low <= 4e-16 * larger(fabs(low), fabs(high)):
            return
        lam = step


cdef inline void extremes(
    const double* f, const double* a, Py_ssize_t start, Py_ssize_t stop, double below,
    double* highest, double* lowest
) noexcept nogil:
    """Raise `highest` to the highest f, lower `lowest` to the lowest where a < `below`."""
    cdef double high = highest[0], low = lowest[0]
    cdef Py_ssize_t l
    for l in range(start, stop):
        high = larger(f[l], high)
        low = smaller(f[l] if a[l] < below else INFINITY, low)
    highest[0] = high
    lowest[0] = low


cdef double training_violation(
    const double* f, const double* a, Py_ssize_t L, Py_ssize_t y, double cap, double tiny
) noexcept nogil:
    # Any label can fall; one can rise that is below its bound, as all are but those at 0.
    cdef double highest = f[y] - 1.0, lowest = INFINITY
    if cap - a[y] > tiny:
        lowest = highest
    extremes(f, a, 0, y, -tiny, &highest, &lowest)
    extremes(f, a, y + 1, L, -tiny, &highest, &lowest)
    return larger(highest - lowest, 0.0)


cdef double free_violation(
    const double* f, const double* a, Py_ssize_t L, double upper, double delta, double tiny
) noexcept nogil:
    # Labels may fall without end and rise to `upper`, paying delta while they are positive.
    cdef double highest = -INFINITY, lowest = INFINITY, slope
    cdef Py_ssize_t l
    for l in range(L):
        slope = f[l] + delta if a[l] > tiny else f[l]
        if slope > highest:
            highest = slope
        if a[l] < upper - tiny:
            slope = f[l] + delta if a[l] >= -tiny else f[l]
            if slope < lowest:
                lowest = slope
    return larger(highest - lowest, 0.0)


cdef double full_violation(
    const double* f, const double* a, Py_ssize_t L, double delta, double tiny
) noexcept nogil:
    # With all its mass in use ("max"), a row can give some back, or move it among the labels of
    # one sign and those at 0.
    cdef double top_positive = -INFINITY, top_not_positive = -INFINITY
    cdef double low_negative = INFINITY, low_not_negative = INFINITY
    cdef Py_ssize_t l
    for l in range(L):
        if a[l] > tiny:
            top_positive = larger(f[l], top_positive)
        else:
            top_not_positive = larger(f[l], top_not_positive)
        if a[l] < -tiny:
            low_negative = smaller(f[l], low_negative)
        else:
            low_not_negative = smaller(f[l], low_not_negative)
    return larger(
        larger(top_positive + delta - low_negative, top_positive - low_not_negative),
        larger(top_not_positive - low_negative, 0.0),
    )


cdef double universum_violation(
    const double* f, const double* a, Py_ssize_t L, double cap, double delta, bint is_max,
    double tiny
) noexcept nogil:
    cdef double mass = 0.0
    cdef Py_ssize_t l
    if not is_max:
        return free_violation(f, a, L, cap, delta, tiny)
    for l in range(L):
        mass += 0.5 * fabs(a[l])
    if mass < cap - tiny:
        return free_violation(f, a, L, INFINITY, delta, tiny)
    return full_violation(f, a, L, delta, tiny)
