"""python -m raretokens COMMAND."""

from raretokens.tools.cli.main import main

main()
