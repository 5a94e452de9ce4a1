// ------------------------------------------------------------------------------------------------ storage
// What tensors hold, and how it becomes lanes. Arithmetic is never done in half precision.
struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

// Integers of 16 bits among those of 32. GCC would take a register of AVX-512 apart.
#if defined(__AVX512F__)
INSTRUCTION("vpmovzxwd", extended, Words, Shorts)
INSTRUCTION("vpmovdw", truncated, Shorts, Words)
#else
INLINE Words extended(Shorts half) { return __builtin_convertvector(half, Words); }
INLINE Shorts truncated(Words wide) { return __builtin_convertvector(wide, Shorts); }
#endif

INLINE Floats number_in(bfloat16, Shorts half) {
    return reinterpret_cast<Floats>(extended(half) << 16);
}

#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
INSTRUCTION("vcvtneps2bf16", to_bfloat16, Shorts, Floats)
#endif

// Rounds to nearest, ties to even.
INLINE Shorts rounded_to(bfloat16, Floats value) {
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
    uint16_t subnormal;  // which the instruction takes for 0
    asm("vfpclassps $0x20, %1, %0" : "=k"(subnormal) : "v"(value));
    if (__builtin_expect(!subnormal, 1)) return to_bfloat16(value);
#endif
    const Words bits = reinterpret_cast<Words>(value);
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return truncated(value == value ? rounded : Words{} + 0x7fc0);
}

#if defined(__AVX512F__) || defined(__F16C__)
INSTRUCTION("vcvtph2ps", from_float16, Floats, Shorts)
INSTRUCTION("vcvtps2ph $0,", to_float16, Shorts, Floats)
INLINE Floats number_in(float16, Shorts half) { return from_float16(half); }
INLINE Shorts rounded_to(float16, Floats value) { return to_float16(value); }
#else
INLINE Floats number_in(float16, Shorts half) {
    const Words wide = extended(half);
    // Exponent and mantissa in their places in float32; a product corrects the bias, of subnormal numbers too.
    const Words magnitude = (wide & 0x7fff) << 13;
    const Floats value = reinterpret_cast<Floats>(magnitude) * 0x1p112f;
    const Words special = reinterpret_cast<Words>((wide & 0x7c00) == 0x7c00) & 0x7f800000;
    return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) | special | ((wide & 0x8000) << 16));
}

INLINE Shorts rounded_to(float16, Floats value) {
    const Words bits = reinterpret_cast<Words>(value), sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
    const Words normal = (size + 0xfff + ((size >> 13) & 1) - 0x38000000) >> 13;
    // Adding 0.5 shifts a subnormal number to the last bits and rounds it there.
    const Floats shifted = reinterpret_cast<Floats>(size) + 0.5f;
    const Words small = reinterpret_cast<Words>(shifted) - 0x3f000000;
    Words result = size < 0x38800000 ? small : normal;
    result = size >= 0x47800000 ? Words{} + 0x7c00 : result;
    result = size > 0x7f800000 ? Words{} + 0x7e00 : result;
    return truncated(result | sign);
}
#endif

// Part by part: GCC would copy two registers in pieces that it then waits for.
template <typename T>
INLINE Lanes<T> read_from(const T* memory) {
    Lanes<T> x;
    EACH_PART(memcpy(&x.part[p], memory + p * W / Types<T>::parts, sizeof x.part[p]))
    return x;
}
template <typename T>
INLINE void write_to(T* memory, Lanes<T> x) {
    EACH_PART(memcpy(memory + p * W / Types<T>::parts, &x.part[p], sizeof x.part[p]))
}

template <typename V, typename S>
INLINE V load(const S* p) {
    using T = typename V::Element;
    if constexpr (sizeof(S) == 2) {
        Shorts half;
        memcpy(&half, p, sizeof half);
        Lanes<float> x;
        x.part[0] = number_in(S{}, half);
        return convert<T>(x);
    } else {
        return convert<T>(read_from(p));
    }
}

// The registers that are stored for some lanes.
template <typename S, typename T>
INLINE auto stored(Lanes<T> x) {
    if constexpr (sizeof(S) == 2) {
        return rounded_to(S{}, convert<float>(x).part[0]);
    } else {
        return convert<S>(x);
    }
}

template <typename T, typename S>
INLINE void store(S* p, Lanes<T> x) {
    const auto y = stored<S>(x);
    if constexpr (sizeof(S) == 2) memcpy(p, &y, sizeof y);
    else write_to(p, y);
}

// The first and the second elements of pairs that fill two registers, and the other way.
template <typename Part, size_t... I>
INLINE void taken_apart(Part a, Part b, Part& first, Part& second, std::index_sequence<I...>) {
#if defined(__clang__) || __GNUC__ >= 12
    first = __builtin_shufflevector(a, b, (2 * I)...);
    second = __builtin_shufflevector(a, b, (2 * I + 1)...);
#else
    const Part both[2] = {a, b};
    ((first[I] = both[2 * I / sizeof...(I)][2 * I % sizeof...(I)]), ...);
    ((second[I] = both[(2 * I + 1) / sizeof...(I)][(2 * I + 1) % sizeof...(I)]), ...);
#endif
}

template <typename Part, size_t... I>
INLINE void put_together(Part first, Part second, Part& a, Part& b, std::index_sequence<I...>) {
    constexpr size_t N = sizeof...(I);
#if defined(__clang__) || __GNUC__ >= 12
    a = __builtin_shufflevector(first, second, (I / 2 + I % 2 * N)...);
    b = __builtin_shufflevector(first, second, (N / 2 + I / 2 + I % 2 * N)...);
#else
    const Part both[2] = {first, second};
    ((a[I] = both[I % 2][I / 2]), ...);
    ((b[I] = both[I % 2][N / 2 + I / 2]), ...);
#endif
}

template <typename V, typename S>
INLINE void load_pairs(const S* p, V& first, V& second) {
    constexpr int PARTS = Types<typename V::Element>::parts;
    const std::make_index_sequence<W / PARTS> places;
    const V low = load<V>(p), high = load<V>(p + W);
    if constexpr (PARTS == 1) {
        taken_apart(low.part[0], high.part[0], first.part[0], second.part[0], places);
    } else {
        taken_apart(low.part[0], low.part[1], first.part[0], second.part[0], places);
        taken_apart(high.part[0], high.part[1], first.part[1], second.part[1], places);
    }
}

template <typename V>
INLINE void as_pairs(V first, V second, V& low, V& high) {
    constexpr int PARTS = Types<typename V::Element>::parts;
    const std::make_index_sequence<W / PARTS> places;
    if constexpr (PARTS == 1) {
        put_together(first.part[0], second.part[0], low.part[0], high.part[0], places);
    } else {
        put_together(first.part[0], second.part[0], low.part[0], low.part[1], places);
        put_together(first.part[1], second.part[1], high.part[0], high.part[1], places);
    }
}

// Numbers at (register, lane), read as one binary number, moved to where its digits are rotated: by one in each round,
// which puts those together that are half of the registers apart. After as many as a lane has digits W are transposed.
template <int N, int rounds, typename V>
INLINE void rotate(V* x) {
    if constexpr (rounds > 1) {
        V y[N];
#pragma GCC unroll 16
        for (int i = 0; i < N / 2; i++) as_pairs(x[i], x[i + N / 2], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < N; i++) x[i] = y[i];
        rotate<N, rounds / 2>(x);
    }
}

// Past the caches, to a multiple of the size of a register.
#if defined(__AVX__)
template <typename Register>
INLINE void stream_register(void* p, Register x) {
    asm("vmovntps %1, %0" : "=m"(*static_cast<Register*>(p)) : "v"(x));
}

template <typename T, typename S>
INLINE void stream(S* p, Lanes<T> x) {
    const auto y = stored<S>(x);
    if constexpr (sizeof(S) == 2) {
        stream_register(p, y);
    } else {
        stream_register(p, y.part[0]);
        if constexpr (Types<S>::parts > 1) stream_register(p + W / 2, y.part[1]);
    }
}
#else
template <typename T, typename S>
INLINE void stream(S* p, Lanes<T> x) {
    store(p, x);
}
#endif
