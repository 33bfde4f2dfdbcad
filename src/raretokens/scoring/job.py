"""What scoring a run is told."""

from raretokens.run import Run
from raretokens.sections import Section
from raretokens.subword.groups import Groups
from raretokens.training.job import Training


class Majority(Section):
    """The most frequent class, for every example of a classified text."""

    name: str
    task: str
    corpus: str


class Score(Section):
    """Of any task; a task's own class adds to it."""

    run: Run
    training: Training
    groups: Groups
    output: str  # folder of data/ with what the model said of the test text
    pictures: dict[str, bool]  # series of two-dimensional pictures -> whether they are centred
    queries: list[str]  # of the nearest neighbours
    updates: list[int]  # after which the table is projected
    mark: str = ""  # of all that the run's stages are told
    markers: bool = True  # whether <s>, </s> and <unk> are types of the table
    named: dict[str, list[str]] = {}  # query -> words whose rank among its neighbours is told
