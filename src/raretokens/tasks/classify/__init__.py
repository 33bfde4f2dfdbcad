"""Text classification: the class of a document, from the table of its words."""
