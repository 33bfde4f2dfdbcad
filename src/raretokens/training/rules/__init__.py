"""One file an optimizer rule, found by its name in a recipe: OPTIONS (name -> default) and RULE, a class (training/rule.py)."""
