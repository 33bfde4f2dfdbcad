"""score {lm,nmt} RUN, or score data: what the stages before left -> reports/runs/ and reports/curves/."""

import sys

from raretokens import config


def main() -> None:
    parameters = config.load()
    try:
        score(parameters, sys.argv[1:])
    except OSError as error:
        raise config.UserError(f"{error.filename or error}: cannot be read; run the stages before this one") from None


def score(parameters: config.Parameters, arguments: list[str]) -> None:
    # Each case imports what it alone needs: there is one process a run, and an import costs up to half of it.
    match arguments:
        case ["lm", name]:
            from raretokens.metrics import language_model

            language_model.score(parameters, name)
        case ["nmt", name]:
            from raretokens.metrics import translation

            translation.score(parameters, name)
        case ["data"]:
            from raretokens.metrics import data

            data.score(parameters)
        case _:
            raise config.UserError("usage: score.py lm RUN | score.py nmt RUN | score.py data")


if __name__ == "__main__":
    config.main(main)
