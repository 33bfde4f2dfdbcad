"""Language modelling: each token from those before it."""
