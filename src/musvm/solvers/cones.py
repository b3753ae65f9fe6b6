"""The rows of the dual as an interior-point method sees them.

Every row of alpha is made of nonnegative variables x with multipliers z, and is optimal once all
products x z vanish. With e_l = [l = y] for a training row, 0 otherwise, and F the decision values,

    Simplex    training rows, and universum rows of the "sum" loss at Delta = 0
               alpha = bound - x,  sum x fixed          z = e - F - lambda
    Capped     universum rows of the "sum" loss
               alpha = p - q,  p + u = c,  sum p = sum q
               z_p = F + Delta + lambda + z_u           z_q = -F - lambda
    Balanced   universum rows of the "max" loss
               alpha = p - q,  sum p + u = sum q + u = c
               z_p = F + Delta + a      z_q = -F + b    z_u = a + b

A Newton step towards x z = target leaves nothing unknown but the change of F:

    change of alpha = offset - B (change of F).

B is the Laplacian of a graph between the labels: B_kl = -A_kl and B_kk = the sum of A_kl over the
others, with weights A_kl >= 0. Let theta = x / z, or 1 / (z_p / p + z_u / u) + q / z_q for a
capped row. Then

    A_kl = theta_k theta_l / sum theta

and for a balanced row, with P = sum theta_p, Q = sum theta_q and D = P Q + theta_u (P + Q),

    A_kl = ((Q + theta_u) theta_pk theta_pl + (P + theta_u) theta_qk theta_ql
            + theta_u (theta_pk theta_ql + theta_qk theta_pl)) / D.

All of these are sums of nonnegative terms: nothing cancels, however close to the boundary.

On changes d that sum to zero, the inverse of B is diag(1 / theta): d' B^-1 d is the sum of
d_l^2 / theta_l. In a balanced row, theta = theta_p + theta_q, there is one term more. Of all dp and
dq with dp - dq = d, and du = -sum dp, those that weigh least, dp^2 / theta_p + dq^2 / theta_q +
du^2 / theta_u, have

    dp = a d - (theta_p theta_q / theta) sigma,    du = -theta_u sigma,    sigma = a'd / h,
    a = theta_p / theta,                           h = theta_u + sum theta_p theta_q / theta,

and weigh d' diag(1 / theta) d + (a'd)^2 / h. A row at its cap has next to no h, and the sums of p
and of q stay what they are; far from it h is large, and the *tie* of the two sums is loose. Less
its mean, weighted by theta, a has the same products with d: (theta_p Q - theta_q P) / (theta
(P + Q)), which is zero to the last digit where all theta are those of p, or all of q.

Some variables may be held where they are, at a bound that they are not expected to leave: `live`
is False there, they have no theta, and nothing about them changes. What stands for them is next to
nothing, on the side of the bound that they are at.

A first point is given by decision values: multipliers are what they say, and as much more as
keeps them away from zero. Variables are in the middle of their set or, where an alpha is given
that is near the optimum, between that and the middle. The nearer to it, the fewer steps; but what
is to leave its bound must not begin too close to it.

All arrays are class-major, (L, R) for R rows, of NumPy or of another library on one device.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device

from musvm._input.tensors import Array, namespace

# The smallest multipliers of the first point, in units of decision values. Larger ones, and
# smaller ones, take more steps.
FIRST_SLACK = 1.0
NEARLY_NOTHING = 1e-12
# Products between these times the target are near enough to it.
SMALLEST, LARGEST = 0.1, 10.0
# So many targets are the most that Mehrotra's corrector makes up for: with ten, steps in play grow
# in number; with a hundred, the few variables that cut steps short still do.
MOST_LEFT_OUT = 30.0
HELD = 1e-200


class Star:
    """B = diag(theta) - theta theta' / sum theta of every row.

    All differences are taken from the label with the largest theta. Its own change is a small
    difference of large numbers; minus the sum of the others' is the same with all its digits.
    """

    def __init__(self, theta: Array) -> None:
        xp = namespace(theta)
        self.theta = theta
        self.total = xp.sum(theta, axis=0)
        rows = xp.arange(theta.shape[1], device=device(theta))
        self._heaviest = xp.argmax(theta, axis=0), rows

    def slopes(self, F: Array) -> Array:
        """F less its mean, weighted by theta."""
        F = F - F[self._heaviest]
        return F - namespace(F).sum(self.theta * F, axis=0) / self.total

    def balanced(self, change: Array) -> Array:
        """The change with that of the heaviest label set to minus the sum of the others'."""
        change[self._heaviest] = 0.0
        change[self._heaviest] = -namespace(change).sum(change, axis=0)
        return change

    def closed(self, change: Array) -> Array:
        """The change with what its rows do not sum to zero by taken from the heaviest label."""
        change[self._heaviest] -= namespace(change).sum(change, axis=0)
        return change

    def projected(self, change: Array) -> Array:
        """The change with what its rows do not sum to zero by taken from labels by their theta."""
        return change - self.theta * (namespace(change).sum(change, axis=0) / self.total)

    def response(self, F: Array) -> Array:
        """-B F."""
        return self.balanced(-self.theta * self.slopes(F))


class DoubleStar:
    """B of a balanced row: the labels of p, those of q, and u that both share."""

    def __init__(self, p: Array, q: Array, u: Array) -> None:
        xp = namespace(p)
        self.p, self.q, self.u = p, q, u
        self.P, self.Q = xp.sum(p, axis=0), xp.sum(q, axis=0)
        self.determinant = self.P * self.Q + u[0] * (self.P + self.Q)
        rows = xp.arange(p.shape[1], device=device(p))
        self._heaviest = xp.argmax(p + q, axis=0), rows

    def shifts(self, of_p: Array, of_q: Array) -> tuple[Array, Array]:
        """a, b with (P + u) a + u b = of_p and u a + (Q + u) b = of_q."""
        u = self.u[0]
        a = (self.Q * of_p + u * (of_p - of_q)) / self.determinant
        b = (self.P * of_q + u * (of_q - of_p)) / self.determinant
        return a, b

    def slopes(self, F: Array) -> tuple[Array, Array, Array]:
        """The changes of z_p, z_q and z_u."""
        xp, F = namespace(F), F - F[self._heaviest]
        a, b = self.shifts(-xp.sum(self.p * F, axis=0), xp.sum(self.q * F, axis=0))
        return F + a, b - F, (a + b)[None]

    def response(self, F: Array) -> Array:
        """-B F."""
        slope_p, slope_q, _ = self.slopes(F)
        return self.q * slope_q - self.p * slope_p

    @property
    def theta(self) -> Array:
        return self.p + self.q

    @property
    def tie(self) -> tuple[Array, Array]:
        """a less its mean, (L, R), and h, (R,)."""
        theta = self._divisor()
        a = (self.p * self.Q - self.q * self.P) / (theta * (self.P + self.Q))
        return a, self.u[0] + namespace(theta).sum(self.p * self.q / theta, axis=0)

    def split(self, change: Array, tension: Array) -> tuple[Array, Array]:
        """dp and dq of a change of alpha with this sigma."""
        theta = self._divisor()
        both = self.p * self.q / theta * tension
        # Shares of exactly 0 or 1 where q or p is held.
        return change * (self.p / theta) - both, -change * (self.q / theta) - both

    def _divisor(self) -> Array:
        """theta where there is any."""
        theta = self.theta
        return namespace(theta).where(theta > 0.0, theta, 1.0)


class Cone:
    """Some rows of one kind, strictly inside.

    `x` and `z` are lists of variables and their multipliers, `dx` and `dz` their changes. alpha
    is kept beside them: the difference that defines it would lose the digits of a small one.
    `live` is None where nothing is held.
    """

    alpha: Array
    d_alpha: Array
    x: list[Array]
    z: list[Array]
    dx: list[Array]
    dz: list[Array]
    live: list[Array] | None
    left_out: list[Array]
    star: Any

    def linearise(self) -> None:
        """Prepare B and all else that depends on the current point alone."""
        raise NotImplementedError

    def graph(self) -> list[Array]:
        """Factors g, (L, R) each, of A = sum g g'."""
        raise NotImplementedError

    def aim(self, target: float, *, corrected: bool) -> None:
        """Set the changes of a step towards the target that leaves F alone.

        `corrected` subtracts what a linear model of x z leaves out.
        """
        raise NotImplementedError

    def respond(self, dF: Array) -> None:
        """Add to all changes what follows from a change of F."""
        raise NotImplementedError

    def follow(self, dF: Array, d_alpha: Array, tension: Array) -> None:
        """The same where the change of alpha is known, and sigma of balanced rows.

        theta would multiply what rounding has left in dF. Multipliers follow dF, x follows alpha.
        """
        raise NotImplementedError

    def widest(self) -> Array:
        """(L, R) the largest of the variables of every label."""
        raise NotImplementedError

    def snapped(self, curvature: Array) -> tuple[Array, Star | DoubleStar, Array]:
        """alpha with what would stay at its bound put there, B of the others, and what is settled.

        A variable would stay if the slope there, the multiplier, is positive even after the move:
        x k(x, x) < z. Descent on the row alone would put it there.
        """
        raise NotImplementedError

    def _aims(self, target: float, corrected: bool) -> list[Array]:
        """(target - what a linear model leaves out) / z - x: the change of x where z stays."""
        left_out = self.left_out if corrected else [0.0] * len(self.x)
        triples = zip(self.x, self.z, left_out, strict=True)
        return self._of_live([(target - missing) / z - x for x, z, missing in triples])

    def keep_left_out(self, target: float) -> None:
        """Take the products of the changes for what a linear model of x z leaves out (Mehrotra).

        They are those of a whole step. Of a variable that would be at its bound after a tenth of
        one they say nothing, and making up for all of them would cut this step short.
        """
        xp, most = namespace(self.alpha), MOST_LEFT_OUT * target
        self.left_out = [
            xp.clip(dx * dz, -most, most) for dx, dz in zip(self.dx, self.dz, strict=True)
        ]

    def pull_to_centre(self, t: float, target: float) -> None:
        """Aim at products that are nearer to the target after a step of length t (Gondzio).

        Those that would be far below it, or far above, are what cuts steps short.
        """
        xp = namespace(self.alpha)
        for i, (x, z, dx, dz) in enumerate(zip(self.x, self.z, self.dx, self.dz, strict=True)):
            products = (x + t * dx) * (z + t * dz)
            nearest = xp.clip(products, SMALLEST * target, LARGEST * target)
            self.left_out[i] = self.left_out[i] - xp.clip(
                nearest - products, -LARGEST * target, None
            )

    @property
    def changes(self) -> tuple[list[Array], list[Array], Array]:
        """The changes of x, z and alpha, to be taken back to."""
        return list(self.dx), list(self.dz), self.d_alpha

    @changes.setter
    def changes(self, values: tuple[list[Array], list[Array], Array]) -> None:
        self.dx, self.dz, self.d_alpha = list(values[0]), list(values[1]), values[2]

    def _of_live(self, values: list[Array]) -> list[Array]:
        """Values of all variables, in place, with those of what is held set to zero."""
        if self.live is not None:
            for value, live in zip(values, self.live, strict=True):
                value *= live
        return values

    @property
    def n_products(self) -> int:
        if self.live is None:
            return sum(x.shape[0] * x.shape[1] for x in self.x)
        return sum(int(live.sum()) for live in self.live)

    def products(self, t: float = 0.0) -> float:
        """The sum of x z after a step of this length."""
        if t == 0.0:
            return sum(_dot(x, z) for x, z in zip(self.x, self.z, strict=True))
        quadruples = zip(self.x, self.z, self.dx, self.dz, strict=True)
        return sum(_dot(x + t * dx, z + t * dz) for x, z, dx, dz in quadruples)

    def steepest(self) -> float:
        """1 / t for the longest step t that keeps all x and z nonnegative."""
        pairs = zip([*self.x, *self.z], [*self.dx, *self.dz], strict=True)
        return max(float((-change / value).max()) for value, change in pairs)

    def advance(self, t: float) -> None:
        for value, change in zip([*self.x, *self.z], [*self.dx, *self.dz], strict=True):
            value += t * change
        self.alpha += t * self.d_alpha
        self._balance()

    def _balance(self) -> None:
        """Take what rounding has left in the row sums of alpha from the entries that have most."""
        xp = namespace(self.alpha)
        sums = xp.sum(self.alpha, axis=0)
        widest = self.x[0] == xp.max(self.x[0], axis=0)
        self.alpha -= widest * (sums / xp.sum(xp.astype(widest, sums.dtype), axis=0))


def _dot(a: Array, b: Array) -> float:
    return float(a.reshape(-1) @ b.reshape(-1))


class Simplex(Cone):
    """alpha = bound - x with x >= 0 and row sums that stay."""

    def __init__(
        self,
        bound: Array,
        e: Array,
        live: Array | None = None,
        near: Array | None = None,
        middle: float = 1.0,
    ) -> None:
        """`e` is that of the first formula less F; `middle` the share of the middle next to `near`.

        Labels of `near` that are not live are at their bound.
        """
        xp = namespace(bound)
        free = bound == bound if live is None else live
        x = 0.0 * bound + xp.sum(bound, axis=0) / xp.sum(xp.astype(free, bound.dtype), axis=0)
        if near is not None:
            x = middle * x + (1.0 - middle) * (bound - near)
        x = xp.where(free, x, HELD)
        slack = e - xp.min(xp.where(free, e, xp.inf), axis=0)
        self.bound = bound
        self.live = None if live is None else [xp.astype(live, bound.dtype)]
        self.alpha = bound - xp.where(free, x, 0.0)
        self.x, self.z = [x], [xp.where(free, FIRST_SLACK + slack, 1.0)]

    def linearise(self) -> None:
        self.star = Star(*self._of_live([self.x[0] / self.z[0]]))

    def graph(self) -> list[Array]:
        return [self.star.theta / self.star.total**0.5]

    def aim(self, target: float, *, corrected: bool) -> None:
        (v,) = self._aims(target, corrected)
        shift = namespace(v).sum(v, axis=0) / self.star.total
        dx = self.star.balanced(v - self.star.theta * shift)
        self.dx, self.dz, self.d_alpha = [dx], [0.0 * v + shift], -dx
        self._of_live(self.dz)

    def respond(self, dF: Array) -> None:
        slopes = self.star.slopes(dF)
        change = self.star.balanced(self.star.theta * slopes)
        self.dz[0] -= slopes
        self.dx[0] += change
        self.d_alpha -= change
        self._of_live(self.dz)

    def follow(self, dF: Array, d_alpha: Array, tension: Array) -> None:
        self.dz[0] -= self.star.slopes(dF)
        self.dx, self.d_alpha = [-d_alpha], d_alpha
        self._of_live(self.dz)

    def widest(self) -> Array:
        return self.x[0]

    def snapped(self, curvature: Array) -> tuple[Array, Star, Array]:
        xp, (x,), (z,) = namespace(self.alpha), self.x, self.z
        settled = (x * curvature < z) & (x < xp.max(x, axis=0))
        star = Star(xp.where(settled, 0.0, self.star.theta))
        return star.projected(xp.where(settled, self.bound, self.alpha)), star, settled


class Capped(Cone):
    """alpha = p - q with 0 <= p <= c, q >= 0 and sum p = sum q; x is p, u = c - p and q."""

    def __init__(
        self,
        caps: Array,
        F: Array,
        delta: float,
        live: tuple[Array, Array] | None = None,
        near: Array | None = None,
        middle: float = 1.0,
    ) -> None:
        """`live` says which p, and with them u, and which q may change; others stay as in `near`.

        `middle` is the share of the middle next to that.
        """
        xp = namespace(F)
        live_p, live_q = (F == F, F == F) if live is None else live
        top = xp.max(xp.where(live_q, F, -xp.inf), axis=0)
        slope = F + delta - top - FIRST_SLACK
        of_p, of_q = (xp.astype(live, F.dtype) for live in (live_p, live_q))
        known = 0.0 * F if near is None else near
        p_near, q_near = xp.maximum(known, 0.0 * known), xp.maximum(-known, 0.0 * known)
        p = xp.where(live_p, 0.5 * caps + 0.0 * F, p_near)
        q = 0.0 * F + xp.sum(p, axis=0) / xp.sum(of_q, axis=0)
        if near is not None:
            # Not of what is held: a cap mixed with itself is not the cap, to the last digit.
            p = xp.where(live_p, middle * p + (1.0 - middle) * p_near, p_near)
            q = middle * q + (1.0 - middle) * q_near
        q = xp.where(live_q, q, 0.0)
        self.caps, self.live = caps, None if live is None else [of_p, of_p, of_q]
        self.alpha = p - q
        self.x = [p + HELD, caps - p + HELD, q + HELD]
        z_p, z_u = (
            xp.where(live_p, xp.maximum(side, 0.0 * side) + 0.5 * FIRST_SLACK, held)
            for side, held in ((slope, HELD / self.x[0]), (-slope, HELD / self.x[1]))
        )
        self.z = [z_p, z_u, xp.where(live_q, FIRST_SLACK + top - F, 1.0)]

    def linearise(self) -> None:
        (p, u, q), (z_p, z_u, z_q) = self.x, self.z
        self.theta_p, self.theta_q = 1.0 / (z_p / p + z_u / u), q / z_q
        if self.live is not None:
            self.theta_p *= self.live[0]
            self.theta_q *= self.live[2]
        self.star = Star(self.theta_p + self.theta_q)

    graph = Simplex.graph

    def aim(self, target: float, *, corrected: bool) -> None:
        (p, u, _), (z_p, z_u, _) = self.x, self.z
        v_p, v_u, v_q = self._aims(target, corrected)
        slope_u = v_u * z_u / u
        dp = self.theta_p * (v_p * z_p / p - slope_u)
        shift = namespace(dp).sum(dp - v_q, axis=0) / self.star.total
        dp = dp - self.theta_p * shift
        dq = v_q + self.theta_q * shift
        dz_u = slope_u + z_u * dp / u
        self.dx = [dp, -dp, dq]
        self.dz = [dz_u + shift, dz_u, 0.0 * dq - shift]
        self.d_alpha = dp - dq
        self._of_live(self.dz)

    def respond(self, dF: Array) -> None:
        slope = self.star.slopes(dF)
        self._add(slope, -self.theta_p * slope, self.theta_q * slope)

    def follow(self, dF: Array, d_alpha: Array, tension: Array) -> None:
        xp, theta = namespace(dF), self.star.theta
        more = d_alpha - self.d_alpha
        # A share of exactly 0 or 1 where q or p is held.
        dp = more * (self.theta_p / xp.where(theta > 0.0, theta, 1.0))
        self._add(self.star.slopes(dF), dp, dp - more)

    def widest(self) -> Array:
        p, u, q = self.x
        return namespace(p).maximum(namespace(p).maximum(p, u), q)

    def _add(self, slope: Array, dp: Array, dq: Array) -> None:
        """To all changes, those of p and q, and of multipliers by the slope of F."""
        (_, u, _), (_, z_u, _) = self.x, self.z
        dz_u = -z_u * self.theta_p * slope / u
        for change, more in zip(self.dx, [dp, -dp, dq], strict=True):
            change += more
        for change, more in zip(self.dz, [slope + dz_u, dz_u, -slope], strict=True):
            change += more
        self.d_alpha += dp - dq
        self._of_live(self.dz)

    def snapped(self, curvature: Array) -> tuple[Array, Star, Array]:
        xp, (p, u, q), (z_p, z_u, z_q) = namespace(self.alpha), self.x, self.z
        full, no_p, no_q = u * curvature < z_u, p * curvature < z_p, q * curvature < z_q
        theta_p = xp.where(no_p | full, 0.0, self.theta_p)
        theta = theta_p + xp.where(no_q, 0.0, self.theta_q)
        # A row of which nothing is left is zero, or stays as it is where entries at c need others
        # to balance them.
        nothing_left = xp.max(theta, axis=0) == 0.0
        settled = (theta == 0.0) & ~(nothing_left & xp.any(full, axis=0))
        at_bound = xp.where(full, self.caps + 0.0 * p, 0.0)
        star = Star(xp.where(nothing_left, self.star.theta, theta))
        return star.projected(xp.where(settled, at_bound, self.alpha)), star, settled


class Balanced(Cone):
    """alpha = p - q with p, q >= 0 and sum p = sum q = c - u, u >= 0; x is p, q and u, (1, R)."""

    def __init__(
        self,
        caps: Array,
        F: Array,
        delta: float,
        live: tuple[Array, Array] | None = None,
        near: Array | None = None,
        middle: float = 1.0,
    ) -> None:
        """`live` says which p and which q may change, at least one of each in every row.

        Others are zero, u may always change.
        `middle` is the share of the middle next to `near`.
        """
        xp = namespace(F)
        live_p, live_q = (F == F, F == F) if live is None else live
        of_p, of_q = (xp.astype(live, F.dtype) for live in (live_p, live_q))
        n_p, n_q = xp.sum(of_p, axis=0), xp.sum(of_q, axis=0)
        fewer = xp.minimum(n_p, n_q)
        total = caps * (fewer / (fewer + 1.0))
        p, q = of_p * (total / n_p), of_q * (total / n_q)
        if near is not None:
            p = middle * p + (1.0 - middle) * xp.maximum(near, 0.0 * near)
            q = middle * q + (1.0 - middle) * xp.maximum(-near, 0.0 * near)
        bottom = xp.min(xp.where(live_p, F, xp.inf), axis=0)
        top = xp.max(xp.where(live_q, F, -xp.inf), axis=0)
        # Far from the optimum all live p may have larger decision values than all live q.
        middle_of_both = 0.5 * (top + bottom)
        bottom, top = xp.minimum(bottom, middle_of_both), xp.maximum(top, middle_of_both)
        self.caps = caps
        self.live = None if live is None else [of_p, of_q, 1.0 + 0.0 * of_p[:1]]
        self.alpha = p - q
        self.x = [p + HELD, q + HELD, (caps - xp.sum(p, axis=0))[None]]
        self.z = [
            xp.where(live_p, F - bottom + (FIRST_SLACK + delta), 1.0),
            xp.where(live_q, top - F + FIRST_SLACK, 1.0),
            (2.0 * FIRST_SLACK + top - bottom)[None],
        ]

    def linearise(self) -> None:
        thetas = [x / z for x, z in zip(self.x, self.z, strict=True)]
        self.star = DoubleStar(*self._of_live(thetas))

    def graph(self) -> list[Array]:
        # The Cholesky factor of the 2 x 2 matrix between theta_p and theta_q.
        p, q, u = self.star.p, self.star.q, self.star.u[0]
        pivot = self.star.Q + u
        return [(pivot * p + u * q) / (pivot * self.star.determinant) ** 0.5, q / pivot**0.5]

    def aim(self, target: float, *, corrected: bool) -> None:
        xp, (v_p, v_q, v_u) = namespace(self.alpha), self._aims(target, corrected)
        a, b = self.star.shifts(xp.sum(v_p, axis=0) + v_u[0], xp.sum(v_q, axis=0) + v_u[0])
        dp, dq = v_p - self.star.p * a, v_q - self.star.q * b
        self.dx = [dp, dq, v_u - self.star.u * (a + b)]
        self.dz = [0.0 * dp + a, 0.0 * dq + b, (a + b)[None]]
        self.d_alpha = dp - dq
        self._of_live(self.dz)

    def respond(self, dF: Array) -> None:
        slopes = self.star.slopes(dF)
        thetas = self.star.p, self.star.q, self.star.u
        changes = [-theta * slope for theta, slope in zip(thetas, slopes, strict=True)]
        self._add(changes, list(slopes))
        self.d_alpha += changes[0] - changes[1]

    def follow(self, dF: Array, d_alpha: Array, tension: Array) -> None:
        star = self.star
        dp, dq = star.split(d_alpha - self.d_alpha, tension)
        slopes = Star(star.theta).slopes(dF)
        of_p, of_q = (part / (star.P + star.Q) for part in (star.Q, star.P))
        dz = [slopes + of_p * tension, of_q * tension - slopes, tension[None]]
        self._add([dp, dq, -star.u * tension], dz)
        self.d_alpha = d_alpha

    def _add(self, of_x: list[Array], of_z: list[Array]) -> None:
        """To the changes of all variables and multipliers."""
        for change, more in zip([*self.dx, *self.dz], [*of_x, *of_z], strict=True):
            change += more
        self._of_live(self.dz)

    def widest(self) -> Array:
        return namespace(self.alpha).maximum(self.x[0], self.x[1])

    def snapped(self, curvature: Array) -> tuple[Array, DoubleStar, Array]:
        xp = namespace(self.alpha)
        gone = [x * curvature < z for x, z in zip(self.x, self.z, strict=True)]
        thetas = [self.star.p, self.star.q, self.star.u]
        # Next to nothing in place of nothing: one of the sums may have to be made up by it.
        kept = [xp.where(g, NEARLY_NOTHING * t, t) for g, t in zip(gone, thetas, strict=True)]
        p, q, u = (xp.where(g, 0.0, x) for g, x in zip(gone, self.x, strict=True))
        star = DoubleStar(*kept)
        missing = self.caps - u[0]
        a, b = star.shifts(xp.sum(p, axis=0) - missing, xp.sum(q, axis=0) - missing)
        return p - star.p * a - (q - star.q * b), star, gone[0] & gone[1]
