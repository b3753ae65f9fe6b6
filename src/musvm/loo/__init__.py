"""Leave-one-out: support-vector types, both spans, the estimate and the exact computation."""

from musvm.loo.error import loo_error
from musvm.loo.evaluate import LeaveOneOutResult, evaluate

__all__ = ["LeaveOneOutResult", "evaluate", "loo_error"]
