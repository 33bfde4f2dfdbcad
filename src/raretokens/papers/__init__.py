"""What the papers declare: reported tables, claims, figures, metrics and scales, read from data/paper and checked."""
