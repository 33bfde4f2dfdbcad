"""The run sheet as the reports use it: all runs of a scale, with seeds and options resolved."""

from raretokens.claims.scores import SheetLine
from raretokens.schema import Section


class Sheet(Section):
    """The run sheet of a scale, with the text of each task."""

    scale: str
    corpora: dict[str, str]  # task -> the text of this scale
    baselines: dict[str, dict[str, str]]  # task -> score file that needs no model -> its corpus
    runs: dict[str, dict[str, SheetLine]]  # task -> run -> line, in the order of the run sheet
