"""Optimizer rules: each file defines OPTIONS (name -> default) and RULE, a subclass of Rule in training/rule.py."""
