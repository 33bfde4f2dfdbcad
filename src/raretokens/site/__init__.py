"""The documentation site: what Sphinx is given beside the pages of docs/."""
