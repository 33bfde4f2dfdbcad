"""The stages of dvc.yaml, their jobs, params.yaml, and the machine that runs them."""
