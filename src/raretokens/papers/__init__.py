"""Declarations of the papers: reported tables, claims, figures, metrics and scales, read from data/paper and checked."""
