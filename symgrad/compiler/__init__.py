"""From parsed formulas to a compiled operation: branches taken apart, forms chosen, derivatives planned."""
