"""python -m raretokens COMMAND."""

from raretokens.cli.main import main

main()
