"""What the papers declare: printed tables, claims, figures, metrics and scales, read from data/paper and checked."""
