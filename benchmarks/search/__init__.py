"""A search for formulas of which a generated module gives something else than the formula.

    python -m benchmarks.search [--count 100] [--seconds 600] [--seed 0] [--every 20] [--cpp 4] [--passes] [--wide]

It draws formulas (`draw`), compiles them with a form that is not measured, which takes a tenth of the time (`made`),
and compares values and derivatives with the composite in float64 (`hold`): of the eager bodies, and of the passes as an
interpreter runs what C++ would (`passes`). One in `--cpp` has its passes run in C++ as well: those of two dozen
formulas are compiled together (`compiled`). Some run under vmap and under torch.compile with symbolic sizes (`modes`).

Drawn are functions of every row, tensor operations along rows, of whole tensors and of labels, domains, values of
hyperparameters, dtypes, strides, sizes around the lanes of a register and none, and each subset of
tensors to differentiate.

With `--wide` whole specs are drawn (`wide`): tensors of one to four named dimensions, of whole numbers and truth
values, optional ones and such without a gradient, some of other dtypes; segments, scatters, embeddings, convolutions,
pools, linear algebra, random numbers; several outputs, indices and truth values among them; branches by text,
dimensions by hyperparameters, options. They run under vmap along any dimension, under checkpointing and without
gradients, and Hessians are taken forward over reverse and the other way (`transforms`). Not drawn are given gradients,
in-place variants, packed residuals, rounds, modules and externs; what a formula means is what the compiler reads in it.

Where terms cancel, a difference counts that rounding does not explain: the composite in float64 and the module are run
again with the result of each operation moved by an ulp at random (`rounding`), autograd's own operations included.

What differs is compiled as usual and compared again, with the passes in C++; what still differs is a find, and is made
smaller (`shrink`). One formula of `--every` takes that way from the start. With `--passes` a draft of elements or rows
counts as different only where its passes do, from the truth by more than its eager body and torch: some 5,000 formulas
take a quarter of an hour of one core, and as long again for the C++. A draft that takes longer than 4 s is left.
"""
