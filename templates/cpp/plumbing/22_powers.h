// defines: square cube reciprocal rsqrt sqrt_cubed
template <typename T>
INLINE Lanes<T> square(Lanes<T> x) {
    return x * x;
}

template <typename T>
INLINE Lanes<T> cube(Lanes<T> x) {
    return x * x * x;
}

template <typename T>
INLINE Lanes<T> reciprocal(Lanes<T> x) {
    return 1 / x;
}

template <typename T>
INLINE Lanes<T> rsqrt(Lanes<T> x) {
    return 1 / sqrt(x);
}

template <typename T>
INLINE Lanes<T> sqrt_cubed(Lanes<T> x) {
    return x * sqrt(x);
}
