"""A study of a task that is not among the paper's data sets."""

from __future__ import annotations

from dataclasses import dataclass

from musvm.experiments.protocol import Study
from musvm.experiments.settings import Setting


@dataclass(frozen=True)
class OwnStudy(Study):
    """The paper's protocol on a setting of one's own; `dataset` has no meaning here."""

    own: Setting | None = None

    @property
    def setting(self) -> Setting:
        if self.own is None:
            raise ValueError("a study of one's own needs a setting")
        return self.own
