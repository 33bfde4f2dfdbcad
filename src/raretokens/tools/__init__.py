"""What people run: measure any model, export a trained run, and the command line."""
