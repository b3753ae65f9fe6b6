"""Leave-one-out: support-vector types, both spans, the estimate and the exact computation."""

from musvm.loo.evaluate import LeaveOneOutResult, evaluate

__all__ = ["LeaveOneOutResult", "evaluate"]
