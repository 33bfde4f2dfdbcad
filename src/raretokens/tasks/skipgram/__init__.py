"""Skip-gram word embeddings: each word from one near it."""
