"""The bridge to SymPy: expressions in and out. SymPy is imported inside of functions, when something is converted."""
