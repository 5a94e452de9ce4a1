// defines: widen
// ------------------------------------------------------------------------------------------------ angles in float64
// An angle in float64, where a product of two floats is exact and does not overflow, of a function in T. It is rounded
// after its reduction, so sine and cosine are as fast as those of a float.
template <typename T>
struct Wide {
    Lanes<double> value;

    Wide(Lanes<double> lanes) : value(lanes) {}
    Wide(double number) : value(number) {}

#define OPERATION(symbol) \
    friend Wide operator symbol(Wide a, Wide b) { return a.value symbol b.value; }
    OPERATION(+)
    OPERATION(-)
    OPERATION(*)
    OPERATION(/)
#undef OPERATION
    friend Wide operator-(Wide a) { return -a.value; }
    friend Wide square(Wide a) { return a.value * a.value; }
};

INLINE Lanes<double> sin(Wide<double> x) { return sin(x.value); }
INLINE Lanes<double> cos(Wide<double> x) { return cos(x.value); }
INLINE Lanes<float> sin(Wide<float> x) { return sin_from(x.value); }
INLINE Lanes<float> cos(Wide<float> x) { return cos_from(x.value); }

INLINE Wide<double> widen(Lanes<double> x) { return x; }
#if defined(FUSED)
// What is an angle most often, the product of two floats, is the sum of two floats as well. Combined with anything
// else it is taken in float64.
struct Exact {};

struct Factor : Exact {
    Lanes<float> number;
    Factor(Lanes<float> x) : number(x) {}
    operator Wide<float>() const { return convert<double>(number); }
};

struct Product : Exact {
    Factor a, b;
    Product(Factor x, Factor y) : a(x), b(y) {}
    operator Wide<float>() const { return Wide<float>(a) * Wide<float>(b); }
    Lanes<float> head() const { return a.number * b.number; }
    Lanes<float> tail() const { return fused(a.number, b.number, -head()); }
};

INLINE Factor widen(Lanes<float> x) { return x; }
INLINE Product operator*(Factor a, Factor b) { return {a, b}; }
INLINE Lanes<float> sin(Product x) { return sin(x.head(), x.tail(), [=] { return Wide<float>(x).value; }); }
INLINE Lanes<float> cos(Product x) { return cos(x.head(), x.tail(), [=] { return Wide<float>(x).value; }); }

template <typename A, typename B>
using WithExact = std::enable_if_t<std::is_base_of_v<Exact, A> || std::is_base_of_v<Exact, B>, Wide<float>>;
#define OPERATION(symbol)                   \
    template <typename A, typename B>       \
    INLINE WithExact<A, B> operator symbol(A a, B b) { return Wide<float>(a) symbol Wide<float>(b); }
OPERATION(+)
OPERATION(-)
OPERATION(*)
OPERATION(/)
#undef OPERATION
template <typename A>
INLINE WithExact<A, A> operator-(A a) { return -Wide<float>(a); }
template <typename A>
INLINE WithExact<A, A> square(A a) { return square(Wide<float>(a)); }
#else
INLINE Wide<float> widen(Lanes<float> x) { return convert<double>(x); }
#endif

template <typename T>
INLINE Lanes<T> tan(Wide<T> x) {
    return convert<T>(tan(x.value));
}
#if defined(FUSED)
template <typename A, typename = WithExact<A, A>>
INLINE Lanes<float> tan(A x) {
    return tan(Wide<float>(x));
}
#endif
