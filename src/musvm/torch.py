"""The paper's losses for networks: `UniversumHingeLoss`, a module of PyTorch.

For a row of decision values f_1..f_L, as the last layer of a network gives them,

    target y >= 0     max_l (f_l + 1 - [l = y]) - f_y                              (eq. 1)
    target < 0, "sum" sum_k max(max_l f_l - f_k - Delta, 0)                        (eq. 4)
    target < 0, "max" max(max_l f_l - min_k f_k - Delta, 0)                        (eq. 2)

and the loss of a batch is the mean of them all, universum rows times C*/C. With a linear last layer
and weight decay this is the objective that `UniversumSVC` minimises exactly.
"""

from __future__ import annotations

from musvm.dual.problem import UniversumLoss

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "torch":
        raise
    raise ModuleNotFoundError(
        "musvm.torch needs PyTorch: pip install torch", name="torch"
    ) from None

__all__ = ["UniversumHingeLoss"]

REDUCTIONS = ("mean", "sum", "none")


class UniversumHingeLoss(nn.Module):
    """Hinge loss of the classes and universum loss of all others, of decision values.

    Parameters
    ----------
    delta : float, default=0.0
        How far the decision values of a universum point may spread at no cost; not negative.

    universum_weight : float, default=1.0
        Factor of the universum's losses, C*/C; not negative. A batch has no balance of its own:
        with n training and m universum points of L classes in all, n / (m L) is what
        :class:`~musvm.UniversumSVC` calls balanced. A much larger one may undo the training.

    universum_loss : {'sum', 'max'}, default='sum'
        'sum' is eq. (4) of the paper, 'max' is eq. (2); see :class:`~musvm.UniversumSVC`.

    reduction : {'mean', 'sum', 'none'}, default='mean'
        What is returned: the mean over all rows of the batch, their sum, or each of them.

    Examples
    --------
    >>> import torch
    >>> from musvm.torch import UniversumHingeLoss
    >>> decision_values = torch.tensor([[2.0, 0.5, 0.0], [0.3, 0.0, 0.1]], requires_grad=True)
    >>> loss = UniversumHingeLoss(delta=0.1)(decision_values, torch.tensor([0, -1]))
    >>> round(loss.item(), 6)
    0.15
    >>> loss.backward()
    """

    def __init__(
        self,
        delta: float = 0.0,
        universum_weight: float = 1.0,
        universum_loss: UniversumLoss = "sum",
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if isinstance(universum_weight, str):
            raise ValueError(
                f"universum_weight must be a number, got {universum_weight!r}: a batch does not "
                "know the data set; the balanced weight is n / (m L)."
            )
        if not (delta >= 0 and universum_weight >= 0):
            raise ValueError("delta and universum_weight must not be negative.")
        if universum_loss not in ("sum", "max"):
            raise ValueError(f"universum_loss must be 'sum' or 'max', got {universum_loss!r}.")
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}.")
        self.delta = delta
        self.universum_weight = universum_weight
        self.universum_loss = universum_loss
        self.reduction = reduction

    def extra_repr(self) -> str:
        """The parameters, in the representation of the module."""
        return (
            f"delta={self.delta}, universum_weight={self.universum_weight}, "
            f"universum_loss={self.universum_loss!r}, reduction={self.reduction!r}"
        )

    def forward(self, decision_values: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        decision_values : Tensor of shape (n, n_classes)
            The values f_l, without a softmax.

        targets : Tensor of shape (n,)
            Integers: the class, or any negative number for a universum point.

        Returns
        -------
        loss : Tensor of shape () or (n,)
            The loss, by `reduction`.
        """
        F = decision_values
        if not (isinstance(F, Tensor) and isinstance(targets, Tensor)):
            raise TypeError("decision_values and targets must be tensors of PyTorch.")
        if F.ndim != 2 or targets.shape != F.shape[:1]:
            raise ValueError(
                "decision_values must be (n, n_classes) and targets (n,), got "
                f"{tuple(F.shape)} and {tuple(targets.shape)}."
            )
        if targets.is_floating_point() or targets.is_complex():
            raise TypeError(f"targets must be integers, got {targets.dtype}.")
        n_classes = F.shape[1]
        if n_classes < 2 or len(targets) == 0:
            raise ValueError(f"A batch needs a row and two classes, got {tuple(F.shape)}.")
        if targets.max() >= n_classes:
            raise ValueError(
                f"targets must be below {n_classes}, the number of columns of decision_values, got "
                f"{int(targets.max())}."
            )
        own = nn.functional.one_hot(targets.long().clamp(min=0), n_classes)
        hinge = (F + (1 - own)).amax(1) - (F * own).sum(1)
        excess = (F.amax(1, keepdim=True) - F - self.delta).clamp(min=0)
        universum = excess.sum(1) if self.universum_loss == "sum" else excess.amax(1)
        losses = torch.where(targets < 0, self.universum_weight * universum, hinge)
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()
