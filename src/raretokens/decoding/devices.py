"""Where CTranslate2 runs, and what arithmetic it has there."""

import ctranslate2

from raretokens.config import UserError


def best_device() -> str:
    """`cuda` if CTranslate2 sees a GPU (CUDA_VISIBLE_DEVICES chooses it), else `cpu`."""
    return "cuda" if ctranslate2.get_cuda_device_count() else "cpu"


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
