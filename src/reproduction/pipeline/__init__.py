"""Pipeline: stages of dvc.yaml, job specifications, validation of params.yaml, and the machine that runs the stages."""
