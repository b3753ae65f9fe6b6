"""Data sets with a universum: loaders for files you have, fetchers that download them.

They follow scikit-learn's conventions: a Bunch with a description, or `(data, target)`;
`data_home` and `download_if_missing`. A file that is truncated, corrupted, hostile or not in its
publisher's layout is refused with :class:`ArchiveError`, whose message names it.
"""

from musvm.datasets._digits import load_digits_universum
from musvm.datasets._files import ArchiveError, get_data_home
from musvm.datasets._gtsrb import fetch_gtsrb
from musvm.datasets._isolet import fetch_isolet
from musvm.datasets._letters import load_abcdetc, load_nist
from musvm.datasets._mnist import load_mnist

__all__ = [
    "ArchiveError",
    "fetch_gtsrb",
    "fetch_isolet",
    "get_data_home",
    "load_abcdetc",
    "load_digits_universum",
    "load_mnist",
    "load_nist",
]
