"""An embedding matrix whose rows are sharded over processes, as FSDP2 (`fully_shard`) shards it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from raretokens.errors import UserError


class RowShard:
    """The rows of a sharded N x d matrix (or entries of a vector) that this process stores.

    Args:
        matrix: DTensor with placements (Shard(0),) on a mesh of all processes.

    Raises:
        UserError: if the matrix is sharded in another way.
    """

    def __init__(self, matrix: Any) -> None:
        from torch.distributed.tensor import Shard

        mesh = matrix.device_mesh
        if tuple(matrix.placements) != (Shard(0),) or mesh.size() != distributed.get_world_size():
            where = f"{tuple(matrix.placements)} on a mesh of {tuple(mesh.shape)} processes"
            raise UserError(
                f"the embedding matrix is sharded as {where}: should be (Shard(0),) on all {distributed.get_world_size()}, as "
                "fully_shard(model) does by default"
            )
        self.matrix, self.group, self.processes = matrix, mesh.get_group(), mesh.size()
        largest = -(-matrix.shape[0] // self.processes)
        self.start = min(mesh.get_local_rank() * largest, matrix.shape[0])
        self.stop = min(self.start + largest, matrix.shape[0])
        self._kept: tuple[Tensor, int, Tensor] | None = None  # mask, its version, and its indices among the own rows

    def own(self) -> Tensor:
        """Return the rows of this process. Their gradient is complete: no process adds to the rows of another."""
        return self.matrix.to_local()

    def whole(self) -> Tensor:
        """Return the whole matrix. The mean of its gradients over all processes reaches the rows."""
        from torch.distributed.tensor import Partial

        gathered = self.matrix.full_tensor(grad_placements=[Partial()])
        if gathered.requires_grad:
            gathered.register_hook(lambda gradient: gradient / self.processes)
        return gathered

    def sum(self, part: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes.

        The backward pass sends the gradient of the sum to each part. All processes must compute the same from the sum.
        """
        return _Sum.apply(part, self.group)

    def local(self, ids: Tensor) -> Tensor:
        """Return the indices among the own rows of those ids that are own rows."""
        return ids[(ids >= self.start) & (ids < self.stop)] - self.start

    def full_vector(self, own: Tensor) -> Any:
        """Return a vector with an entry for each row, sharded as the matrix, from this process' entries."""
        from torch.distributed.tensor import DTensor

        size = torch.Size((self.matrix.shape[0],))
        return DTensor.from_local(
            own, self.matrix.device_mesh, self.matrix.placements, run_check=False, shape=size, stride=(1,)
        )

    @contextmanager
    def keep_rows(self, frozen: Tensor | None) -> Iterator[None]:
        """Context for the optimizer's step in which the rows of a mask (N, bool) keep their values.

        As in `keep_frozen_rows`, zero gradients keep the moments zero, and decoupled weight decay is undone.
        """
        if frozen is None:
            yield
            return
        rows = self._indices(frozen)
        if self.matrix.grad is not None:
            self.matrix.grad.to_local().index_fill_(0, rows, 0.0)
        own = self.own().detach()
        before = own[rows]
        yield
        own[rows] = before

    def _indices(self, mask: Tensor) -> Tensor:
        """Return the own rows in a mask. They are kept while the mask is the same, because a GPU waits for them."""
        if self._kept is None or self._kept[0] is not mask or self._kept[1] != mask._version:
            self._kept = mask, mask._version, mask[self.start : self.stop].nonzero().squeeze(1)
        return self._kept[2]


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor, without an import of torch's module for these."""
    return isinstance(tensor, Tensor) and hasattr(tensor, "device_mesh")


def whole(matrix: Tensor | None) -> Tensor | None:
    """Return a matrix or vector that every process has, gathered if it is sharded."""
    return RowShard(matrix).whole() if is_sharded(matrix) else matrix


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Any) -> Tensor:  # type: ignore[override]
        total = part.detach().clone()
        distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None
