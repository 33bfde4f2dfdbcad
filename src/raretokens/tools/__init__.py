"""The command line and its main tools: measure any model, and export a trained run."""
