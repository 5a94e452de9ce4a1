"""A search for formulas of which a generated module gives something else than the formula.

    python -m benchmarks.search [--count 100] [--seconds 600] [--seed 0] [--every 20]

It draws formulas (`draw`), compiles them with a form that is not measured, which takes a tenth of the time, and
compares values and derivatives with the composite in float64 (`hold`): of the eager bodies, and of the passes as an
interpreter runs what C++ would (`passes`).

What differs is compiled as usual and compared again, with the passes in C++; what still
differs is a find, and is made smaller (`shrink`). One formula of `--every` takes that way from the start.
"""
