_Pass = collections.namedtuple(
    "_Pass",
    ("name", "types", "operands", "results", "shape", "subsets", "counts", "rows", "part", "spans"),
    defaults=((),),
)
