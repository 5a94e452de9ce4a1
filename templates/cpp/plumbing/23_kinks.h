// defines: relu sign finite heaviside
template <typename T>
INLINE Lanes<T> relu(Lanes<T> x) {
    return where(x <= 0, Lanes<T>(0), x);
}

template <typename T>
INLINE Lanes<T> sign(Lanes<T> x) {
    return where(x > 0, Lanes<T>(1), where(x < 0, Lanes<T>(-1), Lanes<T>(0)));
}

template <typename T>
INLINE Lanes<T> finite(Lanes<T> x) {
    const Lanes<T> inf(__builtin_inf()), large(1e30);
    return where(x == inf, large, where(x == -inf, -large, x));
}

template <typename T>
INLINE Lanes<T> heaviside(Lanes<T> x, Lanes<T> values) {
    return where(x == 0, values, where(x > 0, Lanes<T>(1), Lanes<T>(0)));
}
