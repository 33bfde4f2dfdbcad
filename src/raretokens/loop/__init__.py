"""The objective in a training loop of your own: Loop, training of some rows alone, and models that FSDP2 shards."""
