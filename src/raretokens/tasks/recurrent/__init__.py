"""Recurrent language models: read in order, with what they carry from token to token."""
