"""What the evaluation of a recurrent language model is told. Of lists, what is best on the validation text is taken."""

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from raretokens.run import Run
from raretokens.sections import Section, Strict

Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Some = Field(min_length=1)


class Pointer(Strict):
    """Continuous cache pointer (Grave et al., 2017)."""

    sizes: list[str]  # of the runs that are evaluated so
    window: Annotated[list[PositiveInt], Some]  # positions that are remembered
    theta: Annotated[list[PositiveFloat], Some]  # flatness
    weight: Annotated[list[Share], Some]  # of the cache in the mixture


class Dynamic(Strict):
    """Dynamic evaluation (Krause et al., 2018)."""

    sizes: list[str]
    rate: Annotated[list[PositiveFloat], Some]
    decay: Annotated[list[PositiveFloat], Some]  # towards the trained weights: lambda
    epsilon: Annotated[list[PositiveFloat], Some]
    length: PositiveInt = 5  # positions of a segment
    sequences: PositiveInt = 100  # of a batch of the training text, whose squared gradients are averaged
    batches: PositiveInt | None = None  # so many of them; None: all of the text
    tokens: PositiveInt | None = None  # from the start of validation and test text; None: all


class Evaluation(Strict):
    pointer: Pointer | None = None
    dynamic: Dynamic | None = None

    def of(self, size: str) -> "Evaluation":
        """What runs of that size are evaluated by."""
        parts = {name: getattr(self, name) for name in ("pointer", "dynamic")}
        return Evaluation(**{name: part for name, part in parts.items() if part and size in part.sizes})


class EvaluateJob(Section):
    run: Run
    evaluation: Evaluation
    threads: PositiveInt
