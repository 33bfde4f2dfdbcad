"""Translation: a sentence from its source and the pieces before."""
