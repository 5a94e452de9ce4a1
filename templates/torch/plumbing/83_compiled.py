def _compiled(source: Path, digest: str, storage: str, part: int, narrow: bool) -> Any:
    """Load the passes for one kind of elements, compiling them unless they are in the cache.

    A cached library is found by everything that it depends on, without a compiler, and appears there whole:
    processes that compile it at once do not disturb each other. Raises OSError and RuntimeError.
    """
    text = source.read_text(encoding="utf-8", errors="replace")
    body = text[text.find("//\n") :]
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise RuntimeError(f"{source.name} is not the file that this module was generated with")
    flags = [*_FLAGS, f"-DSTORAGE={storage}", f"-DPART={part}"]
    kind = f"{storage}{part or ''}"
    if narrow:
        flags.append("-mno-avx512f")
        kind += "_narrow"
    shared = hashlib.sha256(source.with_name("_kernels.h").read_bytes()).hexdigest()
    compiler = _compiler()
    what = "\0".join([digest, shared, *compiler, *flags, *_machine()])
    folder = _cache_folder()
    name = f"{source.stem}_{kind}_{hashlib.sha256(what.encode()).hexdigest()[:24]}"
    target = folder / f"{name}_{_version(compiler)}.so"
    if folder.exists():
        _require_own(folder)
    if not shutil.which(compiler[0]):  # what was compiled elsewhere by the same command serves
        target = next(filter(_is_sealed, sorted(folder.glob(f"{name}_*.so"))), target)
    if not _is_sealed(target):
        if not shutil.which(compiler[0]):
            raise RuntimeError(f"no C++ compiler ({compiler[0]}; CXX names another)")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(folder)
        with TemporaryDirectory(dir=folder, prefix="building_") as build:
            made = Path(build) / target.name
            for openmp in (["-fopenmp"], []):  # without it the passes use one thread
                command = [*compiler, *flags, *openmp, str(source), "-o", str(made)]
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
                if done.returncode == 0:
                    break
            else:
                raise RuntimeError(f"{' '.join(compiler)} failed:\n{done.stderr[-2000:]}")
            _seal(made)
            ctypes.CDLL(str(made))  # what cannot be loaded is not kept
            made.replace(target)
    return ctypes.CDLL(str(target))
