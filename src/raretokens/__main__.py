"""python -m raretokens COMMAND."""

from raretokens.tools.cli import main

main()
