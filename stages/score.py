"""score {lm,nmt} RUN, or score data: probes, hypotheses and corpora -> reports/runs/<task>/<run>.json and .csv."""

import sys

from raretokens import config
from raretokens.metrics import scores


def main() -> None:
    parameters = config.load()
    try:
        score(parameters, sys.argv[1:])
    except OSError as error:
        raise config.UserError(f"{error.filename or error}: cannot be read; run the stages before this one") from None


def score(parameters: config.Parameters, arguments: list[str]) -> None:
    match arguments:
        case ["lm", name]:
            scores.language_model(parameters, name)
        case ["nmt", name]:
            scores.translation(parameters, name)
        case ["data"]:
            scores.data(parameters)
        case _:
            raise config.UserError("usage: score.py lm RUN | score.py nmt RUN | score.py data")


if __name__ == "__main__":
    config.main(main)
