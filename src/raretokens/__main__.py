"""Entry point of `python -m raretokens COMMAND`."""

from raretokens.tools.cli import main

main()
