"""The end of a run of a scale: findings in words, in lines of 80 columns."""

from pathlib import Path

import pytest

from reproduction.commands.scale_commands import WIDTH, in_words
from reproduction.report.findings import NONE

SMALL = Path(__file__).parents[1] / "scales/small/reports/findings.md"
DEMO = """| change from maximum likelihood | measured | 95 % interval | paper | logit bias | seeds |
| --- | --- | --- | --- | --- | --- |
| AGG: rare-token perplexity | -56 % | -66 % to -44 % | -83 % | -71 % | 2 |
| AGPS, subword tokens: rare-token perplexity | -20 % |  |  | -25 % | 1 |
| AGG: isotropy I(W) | +0.416 | +0.405 to +0.428 | +0.436 |  | 2 |
| AGG: BLEU | -0.805 (not testable) | -1.33 to -0.327 (test set alone) | +1.4 |  | 1 |
"""
WORDS = """\
1. AGG and perplexity
   - AGG changes rare-token perplexity by -56 % (95 % interval: -66 % to -44 %;
     paper: -83 %; logit bias: -71 %).
2. AGPS and perplexity
   - With subword tokens, AGPS changes rare-token perplexity by -20 % (logit
     bias: -25 %).
3. Isotropy and word similarity
   - AGG changes isotropy I(W) by +0.416 (95 % interval: +0.405 to +0.428;
     paper: +0.436).
4. Translation
   - AGG changes BLEU by -0.805 (not testable; 95 % interval of the test set
     alone: -1.33 to -0.327; paper: +1.4)."""


def test_findings_are_sentences_with_interval_and_reported_number():
    assert in_words(DEMO) == WORDS


@pytest.mark.parametrize("findings", [SMALL.read_text(encoding="utf-8"), NONE])
def test_findings_are_readable_in_80_columns(findings):
    lines = in_words(findings).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert not any(line.lstrip().startswith("%") for line in lines)
