"""Training of models of the transformers library. In a clone, `pip install '.[transformers]'` installs what they need.

from raretokens.transformers import ObjectiveTrainer
"""

from raretokens.errors import UserError

try:
    from raretokens.transformers.trainer import ObjectiveTrainer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("transformers", "accelerate"):
        raise
    raise UserError(f"raretokens.transformers needs {error.name}: pip install transformers accelerate") from None

__all__ = ["ObjectiveTrainer"]
