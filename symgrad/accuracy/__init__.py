"""What a form is worth: over the reals, and as a machine executes it."""
