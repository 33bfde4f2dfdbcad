"""compare: data/hypotheses/ and data/corpus/nmt/ -> reports/runs/nmt/paired.json (every run against maximum likelihood)."""

from raretokens import config
from raretokens.metrics import translation


def main() -> None:
    parameters = config.load()
    try:
        translation.compare(parameters)
    except OSError as error:
        raise config.UserError(f"{error.filename or error}: cannot be read; translate the runs first") from None


if __name__ == "__main__":
    config.main(main)
