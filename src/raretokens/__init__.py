"""raretokens: the representation degeneration papers as one pipeline."""
