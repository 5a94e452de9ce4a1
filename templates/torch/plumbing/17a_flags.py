_FLAGS = (
    *("-std=c++17", "-O2", "-march=native", "-shared", "-fPIC", "-w", "-Wno-psabi"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fno-tree-slp-vectorize"),
)
