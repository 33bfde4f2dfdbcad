"""Counts of synchronisations: operations for whose result the host waits until the GPU has finished all earlier work.

`Synchronising` counts them on a real GPU. `simulated()` counts them without a GPU: its tensors claim to be on a GPU, while their
numbers are on the CPU. So every branch on the device is the GPU's, and every copy between host and device is seen.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "simulated"  # device type of the simulated GPU
# Operations whose result, or the size of whose result, the host must know.
READ = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount", "equal",
    "_coalesce", "_linalg_check_errors", "_linalg_eigh", "_linalg_svd",
}  # fmt: skip
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
COPIES = {"_to_copy", "copy_"}


def kind(name: str, args: Any, kwargs: dict[str, Any], source: torch.device, result: torch.device | None) -> str | None:
    """Return why the host waits for this operation of a GPU, or None if it does not.

    source: device of the data; result: device of the result, if it is a tensor.
    """
    if name in READ:
        return name
    if name in INDEXING and any(isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8) for one in args[1]):
        return "mask as index"
    if name in COPIES and result is not None and source.type != result.type:
        is_waiting = not kwargs.get("non_blocking", args[2] if name == "copy_" and len(args) > 2 else False)
        if result.type == "cpu":
            return "copy to the host"  # the host reads the copy at once, also where it is not blocking
        return "copy from the host" if is_waiting else None
    return None


class Synchronising(TorchDispatchMode):
    """Counts the synchronisations of a GPU. On a CPU, it counts operations that would wait on a GPU, without the copies."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.has_gpu = torch.cuda.is_available()  # operations on the CPU alone do not wait for it

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, result = function._schema.name.removeprefix("aten::"), function(*args, **(kwargs or {}))
        data = args[1] if name == "copy_" else args[0] if args else None
        if isinstance(data, Tensor) and (data.is_cuda or not self.has_gpu or isinstance(result, Tensor) and result.is_cuda):
            found = kind(name, args, kwargs or {}, data.device, result.device if isinstance(result, Tensor) else None)
            self.counts.update([found] if found else [])
        return result


class OnGPU(Tensor):
    """Tensor that claims to be on a GPU; `numbers` is the CPU tensor with its numbers."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "OnGPU":
        made = Tensor._make_wrapper_subclass(
            cls, numbers.size(), numbers.stride(), numbers.storage_offset(), dtype=numbers.dtype, device=f"{NAME}:0",
            layout=numbers.layout, requires_grad=numbers.requires_grad,
        )  # fmt: skip
        made.numbers = numbers
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function}: a tensor of the simulated GPU is used outside of simulated()")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def data_ptr(self) -> int:
        return self.numbers.data_ptr()


class _Simulation(TorchDispatchMode):
    """Runs the operations of OnGPU tensors on their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = function._schema.name.removeprefix("aten::")
        is_on_gpu = tree_any(lambda value: isinstance(value, OnGPU), (args, kwargs))
        wanted = kwargs.get("device")
        if wanted is not None:
            kwargs = kwargs | {"device": torch.device("cpu")}
        data = args[1] if name == "copy_" else args[0] if args and isinstance(args[0], Tensor) else None
        before = data.device if data is not None else torch.device("cpu")
        after = (
            torch.device(wanted) if wanted is not None else torch.device(NAME, 0) if is_on_gpu else torch.device("cpu")
        )
        if name == "copy_":
            after = args[0].device
        if name == "_local_scalar_dense" or name == "equal":
            after = torch.device("cpu")
        if is_on_gpu or after.type != before.type:
            self._count(kind(name, args, kwargs, before, after) if is_on_gpu or data is not None else None)
        plain = lambda value: value.numbers  # noqa: E731
        result = function(*tree_map_only(OnGPU, plain, args), **tree_map_only(OnGPU, plain, kwargs))
        written = [value for value in args if isinstance(value, OnGPU)] if name.endswith("_") else []
        if written and isinstance(result, Tensor) and result is written[0].numbers:
            return written[0]
        if "out" in kwargs and isinstance(kwargs["out"], OnGPU):
            return kwargs["out"]
        return tree_map_only(Tensor, lambda value: OnGPU(value), result) if after.type == NAME else result

    def _count(self, found: str | None) -> None:
        if found:
            self.counts[found, _place()] += 1


def _place() -> str:
    """Return file and line of the innermost caller in this project, or of the backward pass."""
    frame = sys._getframe(3)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "raretokens" in path.parts and path.name != Path(__file__).name:
            return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


class _Backend(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


@contextmanager
def simulated() -> Iterator[Counter]:
    """Context in which tensors can be moved to a simulated GPU; yields the synchronisations by kind and line of code."""
    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME, _Backend())
    with _Simulation() as simulation:
        yield simulation.counts
