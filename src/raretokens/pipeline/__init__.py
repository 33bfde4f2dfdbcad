"""The stages of dvc.yaml, and what each is told."""
