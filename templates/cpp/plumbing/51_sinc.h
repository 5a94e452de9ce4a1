// defines: sinc
template <typename T>
INLINE Lanes<T> sinc(Lanes<T> x) {
    const Lanes<T> angle = 3.14159265358979323846 * x;
    return where(x == 0, Lanes<T>(1), sin(angle) / angle);
}
