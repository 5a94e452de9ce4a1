def _compiler() -> list[str]:
    """Return the C++ compiler: $CXX, which may name options too, or the first of g++, clang++ and c++."""
    own = os.environ.get("CXX", "").strip()
    for command in [[own], own.split()] if own else [["g++"], ["clang++"], ["c++"]]:
        found = shutil.which(command[0])
        if found:
            return [found, *command[1:]]
    raise RuntimeError(f"no C++ compiler ({own or 'g++ or clang++ or c++'}; CXX names another)")
