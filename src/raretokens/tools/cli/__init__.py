"""The command line: python -m raretokens."""
