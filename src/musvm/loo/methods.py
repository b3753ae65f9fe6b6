"""The ways to judge a model by points that are left out of it: their names, and what each is.

The two spans bound the leave-one-out error under assumptions that real data do not satisfy. They
may rank models, but what they count is no error: on labels drawn at random they say anything from
0 to 37 per cent where the truth is 90. The other two are errors, one of them an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A method of `loo_error` by name.

    Attributes
    ----------
    name : as users write it
    words : what it computes, to follow "the"
    is_error : whether that is an error, or a bound that ranks models and no more
    """

    name: str
    words: str
    is_error: bool


METHODS = {
    method.name: method
    for method in (
        Method("span", "span bound on the leave-one-out error", is_error=False),
        Method("span-2016", "span bound of 2016 on the leave-one-out error", is_error=False),
        Method("loo-estimate", "estimated leave-one-out error", is_error=True),
        Method("loo", "leave-one-out error", is_error=True),
    )
}
