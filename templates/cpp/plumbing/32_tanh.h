// defines: tanh
template <typename T>
INLINE Lanes<T> tanh(Lanes<T> x) {
    const Lanes<T> t = expm1(2 * at_most(abs(x), 40));
    return Lanes<T>::from_bits(Lanes<T>::bits_of(t / (t + 2)) | (Lanes<T>::bits_of(x) & Lanes<T>::sign_bit()));
}
