"""Where CTranslate2 runs, and what arithmetic it has there."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

import ctranslate2

from raretokens.errors import UserError

CUBLAS = ("libcublasLt.so.12", "libcublas.so.12")  # the first is needed by the second


def best_device() -> str:
    """`cuda` if CTranslate2 sees a GPU (CUDA_VISIBLE_DEVICES chooses it), else `cpu`. UserError if it lacks cuBLAS for it."""
    if not ctranslate2.get_cuda_device_count():
        return "cpu"
    _load_cublas()
    return "cuda"


def checked_compute_type(wanted: str, device: str) -> str:
    """The arithmetic that `nmt.decoding.compute_type` names; UserError where the device lacks it.

    CTranslate2 by itself would take another one without a word, and other arithmetic gives other translations.
    """
    supported = ctranslate2.get_supported_compute_types(device)
    if wanted not in supported:
        allowed = [name for name in ("float32", "bfloat16", "int8") if name in supported]
        raise UserError(
            f"nmt.decoding.compute_type: {wanted!r}: this {device} does not have it; allowed here: {', '.join(allowed)}"
        )
    return wanted


def _load_cublas() -> None:
    """CTranslate2 is built for CUDA 12 and opens cuBLAS by name; torch may have brought that of CUDA 13.

    What is in the process already is found by its name, so the copy of the package nvidia-cublas-cu12 is opened here.
    """
    package = find_spec("nvidia")
    folders = [Path(folder) / "cublas/lib" for folder in package.submodule_search_locations or ()] if package else []
    for name in CUBLAS:
        for candidate in (*(folder / name for folder in folders), name):
            try:
                ctypes.CDLL(str(candidate), mode=ctypes.RTLD_GLOBAL)
                break
            except OSError:
                continue
        else:
            raise UserError(
                f"{name}: CTranslate2 needs it on a GPU; pip install nvidia-cublas-cu12, or hide the GPU: CUDA_VISIBLE_DEVICES="
            )
