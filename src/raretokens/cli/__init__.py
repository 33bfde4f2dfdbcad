"""The command line of `python -m raretokens`."""
