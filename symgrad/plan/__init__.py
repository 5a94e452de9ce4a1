"""What is computed where, and what is kept for it: saved values, shared ones, and what they cost."""
