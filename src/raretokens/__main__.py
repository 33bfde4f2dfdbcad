"""Entry point of `python -m raretokens COMMAND`."""

from raretokens.cli import main

main()
