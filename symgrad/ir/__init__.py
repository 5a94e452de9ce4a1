"""The intermediate representation: expressions, walks over them, and what can be said of their shapes and values."""
