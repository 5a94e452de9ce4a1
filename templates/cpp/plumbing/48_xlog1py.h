// defines: xlog1py
template <typename T>
INLINE Lanes<T> xlog1py(Lanes<T> x, Lanes<T> y) {
    return where(y != y, y, where(x == 0, Lanes<T>(0), x * log1p(y)));
}
