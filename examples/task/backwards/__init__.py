"""Language modelling from right to left: each token from those after it. An example of a task of one's own."""
