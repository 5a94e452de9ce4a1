// ------------------------------------------------------------------------------------------------ storage
// What tensors hold, and how it becomes lanes. Arithmetic is never done in half precision.
struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

template <typename V, typename S>
INLINE V load(const S* p) {
    using T = typename V::Element;
    if constexpr (std::is_same_v<S, bfloat16>) {
        Shorts half;
        memcpy(&half, p, sizeof half);
        const Words wide = __builtin_convertvector(half, Words) << 16;
        Lanes<float> x;
        x.part[0] = reinterpret_cast<Floats>(wide);
        return convert<T>(x);
    } else if constexpr (std::is_same_v<S, float16>) {
        Shorts half;
        memcpy(&half, p, sizeof half);
        const Words wide = __builtin_convertvector(half, Words);
        // Exponent and mantissa in their places in float32; a product corrects the bias, of subnormal numbers too.
        const Words magnitude = (wide & 0x7fff) << 13;
        Floats value = reinterpret_cast<Floats>(magnitude) * 0x1p112f;
        const Words special = reinterpret_cast<Words>((wide & 0x7c00) == 0x7c00) & 0x7f800000;
        const Words bits = reinterpret_cast<Words>(value) | special | ((wide & 0x8000) << 16);
        Lanes<float> x;
        x.part[0] = reinterpret_cast<Floats>(bits);
        return convert<T>(x);
    } else {
        Lanes<S> x;
        memcpy(x.part, p, sizeof x.part);
        return convert<T>(x);
    }
}

// Rounds to nearest, ties to even.
template <typename T, typename S>
INLINE void store(S* p, Lanes<T> x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        const Floats value = convert<float>(x).part[0];
        const Words bits = reinterpret_cast<Words>(value);
        const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        const Words result = value == value ? rounded : Words{} + 0x7fc0;
        const Shorts half = __builtin_convertvector(result, Shorts);
        memcpy(p, &half, sizeof half);
    } else if constexpr (std::is_same_v<S, float16>) {
        const Floats value = convert<float>(x).part[0];
        const Words bits = reinterpret_cast<Words>(value), sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
        const Words normal = (size + 0xfff + ((size >> 13) & 1) - 0x38000000) >> 13;
        // Adding 0.5 shifts a subnormal number to the last bits and rounds it there.
        const Floats shifted = reinterpret_cast<Floats>(size) + 0.5f;
        const Words small = reinterpret_cast<Words>(shifted) - 0x3f000000;
        Words result = size < 0x38800000 ? small : normal;
        result = size >= 0x47800000 ? Words{} + 0x7c00 : result;
        result = size > 0x7f800000 ? Words{} + 0x7e00 : result;
        const Shorts half = __builtin_convertvector(result | sign, Shorts);
        memcpy(p, &half, sizeof half);
    } else {
        const Lanes<S> y = convert<S>(x);
        memcpy(p, y.part, sizeof y.part);
    }
}
