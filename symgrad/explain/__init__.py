"""How an operation came about, for readers."""
