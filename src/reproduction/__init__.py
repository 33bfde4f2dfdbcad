"""Reproduce the tables and figures of papers on rare tokens: a DVC pipeline on top of the library raretokens."""
