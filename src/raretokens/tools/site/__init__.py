"""The documentation site: pages, tables and charts that Sphinx adds to the pages of docs/."""
