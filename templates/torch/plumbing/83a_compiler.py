def _compiler() -> str:
    """Return the C++ compiler: $CXX, or the first of g++, clang++ and c++."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise RuntimeError(f"no C++ compiler ({' or '.join(names)}; CXX names another)")
