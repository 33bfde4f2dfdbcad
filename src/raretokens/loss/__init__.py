"""Softmax loss with gated gradients of the embedding matrix, and the interface of training objectives."""
