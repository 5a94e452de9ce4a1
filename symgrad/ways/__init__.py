"""The ways in: whatever a formula comes as (YAML, SymPy, a text, a Python function), it becomes the same Spec."""
