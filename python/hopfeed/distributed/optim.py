"""Optimizers of learned rows, by DGL's names. They run at the owners of the rows; the numbers are torch's.

DGL's ``SparseAdam`` counts the steps of each row and averages what repeats in a step; torch's, and this one, counts the table's steps
and sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopfeed.distributed.state import DistEmbedding
from hopfeed.errors import InvalidError


class _RowOptimizer:
    def __init__(self, params: Iterable[DistEmbedding], **options: Any) -> None:
        self.params = list(params)
        for emb in self.params:
            if not isinstance(emb, DistEmbedding):
                raise InvalidError(f"params has {emb!r}; give DistEmbeddings, and parameters to an optimizer of torch")
        for emb in self.params:
            emb.learn_by(options)

    def step(self) -> None:
        """Brings what was learned since the last step. Every rank calls it, once in each step, also one that has learned nothing."""
        for emb in self.params:
            emb.rows.step()

    def zero_grad(self) -> None:
        """Lets go of gradients that no step has taken; lookups stay."""
        for emb in self.params:
            for _, rows in emb.rows._lookups:
                rows.grad = None


class SparseAdam(_RowOptimizer):
    """``torch.optim.SparseAdam`` of the rows that a step reads."""

    def __init__(self, params: Iterable[DistEmbedding], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(params, optimizer="sparse_adam", lr=lr, beta1=betas[0], beta2=betas[1], epsilon=eps)


class SparseAdagrad(_RowOptimizer):
    """``torch.optim.Adagrad`` of the rows that a step reads."""

    def __init__(self, params: Iterable[DistEmbedding], lr: float, eps: float = 1e-10) -> None:
        super().__init__(params, optimizer="adagrad", lr=lr, epsilon=eps)


class RowWiseAdagrad(_RowOptimizer):
    """Adagrad with one number of state for each row."""

    def __init__(self, params: Iterable[DistEmbedding], lr: float, eps: float = 1e-10) -> None:
        super().__init__(params, optimizer="row_wise_adagrad", lr=lr, epsilon=eps)


class SparseSGD(_RowOptimizer):
    """Plain gradient descent of the rows that a step reads."""

    def __init__(self, params: Iterable[DistEmbedding], lr: float) -> None:
        super().__init__(params, optimizer="sgd", lr=lr)


__all__ = ["RowWiseAdagrad", "SparseAdagrad", "SparseAdam", "SparseSGD"]
