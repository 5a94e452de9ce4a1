// defines: xlogy
template <typename T>
INLINE Lanes<T> xlogy(Lanes<T> x, Lanes<T> y) {
    return where(y != y, y, where(x == 0, Lanes<T>(0), x * log(y)));
}
