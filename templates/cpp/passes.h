// ------------------------------------------------------------------------------------------------ memory
// What is written for the first time is provided page by page, which takes longer than all that is computed. Where the
// system has large pages for who asks, it takes a fraction; whole ones only, so that nothing grows.
INLINE void in_large_pages([[maybe_unused]] void* start, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t PAGE = 1 << 21;
    const uintptr_t address = reinterpret_cast<uintptr_t>(start);
    const uintptr_t first = (address + PAGE - 1) / PAGE * PAGE, last = (address + bytes) / PAGE * PAGE;
    if (bytes >= int64_t{2 * PAGE}) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// Whether a result goes to memory past the caches: one that would have left them before anybody reads it, and of which
// every line would be read before it is written. Memory that is written for the first time comes through the caches.
INLINE bool is_streamed([[maybe_unused]] void* start, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE) && defined(__AVX__)
    constexpr int64_t CACHED = 12 << 20;
    constexpr uintptr_t PAGE = 1 << 12;
    if (bytes < CACHED) return false;
    unsigned char is_there = 0;
    mincore(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(start) + bytes / 2) / PAGE * PAGE), 1, &is_there);
    return is_there & 1;
#else
    return false;
#endif
}

// What other threads read after this is what was streamed before it.
INLINE void end_streams() {
#if defined(__AVX__)
    asm volatile("sfence" ::: "memory");
#endif
}

// ------------------------------------------------------------------------------------------------ loops
// A geometry is what Python found out about the shapes, in elements:
//   rank, inner, then the rank sizes of the outer dimensions; for each operand its step along the inner dimension
//   (0 or 1) and along the outer ones; for each result the same, after its size if it is summed, else 0.
// A summed result is a gradient of a broadcast tensor: all elements of the pass add to it, in float64. What each place
// of a few rows adds, or a strip of one row to one sum, is summed before that in the type of the arithmetic: it stays in
// the nearest cache, and is seldom converted.
constexpr int64_t BLOCK = 8192;      // elements of the inner dimension in one task, at most
constexpr int64_t LINES = 64;        // elements that fill lines of a cache, in any type
constexpr int64_t GRAIN = 32768;     // elements that are worth a thread
constexpr int64_t MOST_CHUNKS = 64;  // partial sums; their number does not depend on the number of threads
constexpr int64_t FEW_ROWS = 32;     // over which a sum for each place of a row is kept in the arithmetic's type
constexpr int64_t FEW = 16 * W;      // elements of a strip
constexpr int64_t SHORT = 48;        // elements of a row that is reduced beside others, one in each lane

// What only some passes have: results that are means, reductions along each row.
template <typename Kernel, typename = void>
struct Means {
    static constexpr unsigned results = 0;
};
template <typename Kernel>
struct Means<Kernel, std::void_t<decltype(Kernel::means)>> {
    static constexpr unsigned results = Kernel::means;
};
template <typename Kernel, typename = void>
struct Sums {
    static constexpr unsigned results = 0;
};
template <typename Kernel>
struct Sums<Kernel, std::void_t<decltype(Kernel::sums)>> {
    static constexpr unsigned results = Kernel::sums;
};
template <typename Kernel, typename = void>
struct Rows {
    static constexpr bool reduced = false;
    static constexpr int stages = 0, reductions = 0, slots = 0, known = 0;
    static constexpr unsigned once = 0, keeps = 0;
    static constexpr char kind(int) { return '+'; }
};
template <typename Kernel, typename = void>
struct Held {
    static constexpr int values = 0;
    static constexpr int stage(int) { return 0; }
};
template <typename Kernel>
struct Held<Kernel, std::void_t<decltype(Kernel::held_in)>> {
    static constexpr int values = sizeof Kernel::held_in / sizeof(int);
    static constexpr int stage(int k) { return Kernel::held_in[k]; }
};
template <typename Kernel>
struct Rows<Kernel, std::void_t<decltype(Kernel::stages)>> {
    static constexpr bool reduced = true;
    static constexpr int stages = Kernel::stages, reductions = sizeof Kernel::reductions - 1, slots = Kernel::slots;
    static constexpr int known = Kernel::known;  // reductions that forward has kept: the last slots, and the first stage
    static constexpr unsigned once = Kernel::once, keeps = Kernel::keeps;
    static constexpr char kind(int k) { return Kernel::reductions[k]; }
};

// What is known of a row before it is read: whole numbers, those of them that are places in it, and what stands there.
template <typename Kernel, typename = void>
struct Picks {
    static constexpr bool numbered = false;
    static constexpr int whole = 0, places = 0, elements = 0;
};
template <typename Kernel>
struct Picks<Kernel, std::void_t<decltype(Kernel::picked)>> {
    static constexpr bool numbered = Kernel::numbered;
    static constexpr int whole = Kernel::whole, places = Kernel::places;
    static constexpr int elements = sizeof Kernel::picked / sizeof *Kernel::picked - 1;
};

// Operands and results that are the first elements of pairs of neighbours; the second ones come after them.
template <typename Kernel, typename = void>
struct Pairs {
    static constexpr unsigned read = 0, written = 0;
};
template <typename Kernel>
struct Pairs<Kernel, std::void_t<decltype(Kernel::read_in_pairs)>> {
    static constexpr unsigned read = Kernel::read_in_pairs, written = Kernel::written_in_pairs;
};

// Zeros, as many as are needed.
template <typename T>
struct Zeros {
    T* const data;

    explicit Zeros(int64_t count) : data(new T[count]()) {}
    Zeros(const Zeros&) = delete;
    ~Zeros() { delete[] data; }
    T& operator[](int64_t i) const { return data[i]; }
};

struct Operand {
    const void* data;
    int64_t inner;  // a mask for the index along the inner dimension
    const int64_t* step;
};
struct Result {
    void* data;  // nothing, if it is not wanted
    int64_t summed, place, inner;
    const int64_t* step;
    bool once, mean, sum, streamed;
};

// What becomes of lanes, and of numbers that are lanes, where a row is reduced to one.
template <typename Compute>
struct Reduction {
    INLINE static double neutral(char kind) {
        return kind == '+' ? 0 : kind == '>' ? -__builtin_inf() : __builtin_inf();
    }

    template <typename T>
    INLINE static Lanes<T> combined(char kind, Lanes<T> a, Lanes<T> b) {
        if (kind == '+') return a + b;
        return where(b != b, b, where(kind == '>' ? b > a : b < a, b, a));
    }

    template <typename Vector>
    INLINE static Vector chosen(char kind, Vector a, Vector b) {
        if (kind == '+') return a + b;
        return (kind == '>' ? b > a : b < a) | (b != b) ? b : a;
    }

    // So many numbers as one, by halves, without a branch: which is larger cannot be foreseen.
    template <int count>
    INLINE static double folded(char kind, const double* x) {
        if constexpr (count > 2) {
            typedef double Half __attribute__((vector_size(count * 4)));
            Half low, high;
            memcpy(&low, x, sizeof low);
            memcpy(&high, x + count / 2, sizeof high);
            low = chosen(kind, low, high);
            double half[count / 2];
            memcpy(half, &low, sizeof half);
            return folded<count / 2>(kind, half);
        } else {
            typedef double Pair __attribute__((vector_size(16)));
            return chosen(kind, Pair{x[0], x[0]}, Pair{x[1], x[1]})[0];
        }
    }

    // The lanes of a value as one, in float64: halves are combined, for all rows wait for this.
    template <typename T>
    INLINE static double across(char kind, Lanes<T> x) {
        const Lanes<double> wide = convert<double>(x);
        Lanes<double> other = wide;
        other.part[0] = wide.part[1];
        double lanes[W / 2];
        memcpy(lanes, combined(kind, wide, other).part, sizeof lanes);
        return folded<W / 2>(kind, lanes);
    }
};

// What each place of a few rows adds to the sums at `target`; where rows are abreast, that of each lane by itself.
template <typename V>
struct Gathered {
    V* sums = nullptr;
    double* target = nullptr;
    int64_t length = 0, rows = 0;
    bool abreast = false;

    ~Gathered() { delete[] sums; }

    void take(double* next, int64_t count) {
        if (next != target || rows == FEW_ROWS) release();
        target = next;
        length = count;
        rows++;
    }

    void release() {
        for (int64_t i = 0; rows && abreast && i < length; i++) {
            target[i] += Reduction<typename V::Element>::across('+', sums[i]);
            sums[i] = V(0);
        }
        for (int64_t i = 0; rows && !abreast && i < length; i += W) {
            V& own = sums[i / W];
            if (i + W <= length) {
                store(target + i, load<Lanes<double>>(target + i) + convert<double>(own));
            } else {
                for (int j = 0; i + j < length; j++) target[i + j] += own[j];
            }
            own = V(0);
        }
        rows = 0;
    }
};

// Where a row finds what is kept from one to the next, and room for what it computes.
template <typename V, typename Storage>
struct Room {
    Gathered<V>* gathered;
    V* values;
    Storage* turned;  // of rows that are abreast: what they read and write, place by place
};

// Fills a register with the last elements of a row, which are no whole one, and with others of it, and a strip with a
// value that does not change; returns where the row is read. All passes call it, so that it is compiled once.
template <typename Storage>
[[gnu::noinline]] const Storage* filled(const Storage* start, int64_t along, int64_t whole, int64_t rest, Storage* last,
                                        Storage* still) {
    Storage same[W];
    for (int j = 0; j < W; j++) same[j] = *start;
    if (rest && whole && along) {  // after the last elements stand others of the row
        Storage end[2 * W];
        memcpy(end, start + whole + rest - W, sizeof same);
        memcpy(end + W, end, sizeof same);
        memcpy(last, end + W - rest, sizeof same);
    } else if (rest) {
        memcpy(last, same, sizeof same);
        for (int j = 0; along && j < rest; j++) last[j] = start[j];
    }
    if (along) return start;
    for (int64_t j = 0; j < whole && j < FEW; j += W) memcpy(still + j, same, sizeof same);
    return still;
}

// What surrounds the rows of a pass and is the same for all passes, so that it is compiled once: the division among
// threads, the way from row to row, and what becomes of the sums.
template <typename Compute, typename Storage>
struct Frame {
    using V = Lanes<Compute>;
    const int operands, results;
    Operand* const operand;
    Result* const result;
    const double* const number;
    int64_t rank, inner, elements, blocks, tasks, chunks, sums = 0;
    int held = 0;  // values of a row that are computed once for all stages
    bool abreast;  // rows are short: there is one in each lane
    bool in_turn;  // rows follow each other with nothing between them: they are not reduced, and nothing is summed
    const int64_t* size;
    mutable bool strayed = false;  // whether some whole number is no place in its row

    Frame(Operand* of_operands, int in, Result* of_results, int out, void* const* data, const int64_t* geometry,
          const double* numbers, unsigned wanted, bool by_row, bool side_by_side)
        : operands(in), results(out), operand(of_operands), result(of_results), number(numbers) {
        rank = *geometry++;
        inner = *geometry++;
        size = geometry;
        int64_t outer = 1;
        for (int d = 0; d < rank; d++) outer *= *geometry++;
        for (int k = 0; k < operands; k++, geometry += rank) {
            operand[k].data = data[k];
            operand[k].inner = -*geometry++;
            operand[k].step = geometry;
        }
        for (int k = 0; k < results; k++, geometry += rank) {
            result[k].data = wanted >> k & 1 ? data[operands + k] : nullptr;
            result[k].summed = *geometry++;
            result[k].place = sums;
            if (wanted >> k & 1) sums += result[k].summed;
            result[k].inner = -*geometry++;
            result[k].step = geometry;
        }
        in_turn = rank > 0 && !by_row && sums == 0;
        blocks = inner > 2 * BLOCK && !by_row ? (inner + BLOCK - 1) / BLOCK : 1;
        tasks = outer * blocks;
        abreast = side_by_side && inner > 0 && inner <= SHORT && tasks >= W;
        for (int k = 0; k < results; k++) abreast = abreast && !(is_added(k) && result[k].step[rank - 1]);
        elements = outer * inner;
        const int64_t grains = elements / GRAIN;
        chunks = grains < 2 ? 1 : grains < MOST_CHUNKS ? grains : MOST_CHUNKS;
        if (chunks > tasks) chunks = tasks > 0 ? tasks : 1;
        if (sums * chunks > elements / 4 + 256) chunks = sums > elements / 4 ? 1 : elements / 4 / sums + 1;
    }

    // Elements begin to end along the inner dimension, of so many rows one after the other, or of one in each lane: then
    // the places of each follow those of the one before.
    virtual void row(const int64_t* at, const int64_t* to, double* total, const Room<V, Storage>& room, int64_t begin,
                     int64_t end, int64_t rows) const = 0;

    void operator()(int threads) {
        for (int k = 0; k < results; k++) {
            const bool whole = result[k].data && !result[k].summed && !result[k].once;
            result[k].streamed = whole && is_streamed(result[k].data, span(result[k]));
            if (whole) in_large_pages(result[k].data, span(result[k]));
        }
        const Zeros<double> total(sums * chunks);
        if (chunks == 1 || threads == 1) {
            for (int64_t c = 0; c < chunks; c++) chunk(c, total.data + c * sums);
        } else {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
            for (int64_t c = 0; c < chunks; c++) chunk(c, total.data + c * sums);
        }
        for (int64_t c = 1; c < chunks; c++) add(total.data, total.data + c * sums, sums);
        for (int k = 0; k < results; k++) {
            if (!result[k].data) continue;
            double* const from = total.data + result[k].place;
            for (int64_t i = 0; result[k].mean && i < result[k].summed; i++) from[i] /= elements;
            if (result[k].sum) store_all(static_cast<Compute*>(result[k].data), from, result[k].summed);
            else store_all(static_cast<Storage*>(result[k].data), from, result[k].summed);
        }
    }

    // The bytes from the first to the last element of a result, which is part of a larger one if they do not touch.
    int64_t span(const Result& of) const {
        int64_t length = inner;
        for (int d = 0; d < rank; d++) length += (size[d] - 1) * of.step[d];
        return length * sizeof(Storage);
    }

    static void add(double* to, const double* from, int64_t count) {
        int64_t i = 0;
        for (; i + W <= count; i += W) store(to + i, load<Lanes<double>>(to + i) + load<Lanes<double>>(from + i));
        for (; i < count; i++) to[i] += from[i];
    }

    template <typename T>
    static void store_all(T* to, const double* from, int64_t count) {
        int64_t i = 0;
        for (; i + W <= count; i += W) store(to + i, convert<Compute>(load<Lanes<double>>(from + i)));
        for (; i < count; i++) store_one(to + i, from[i]);
    }

    template <typename T>
    static void store_one(T* p, double value) {
        T lanes[W];
        store(lanes, Lanes<Compute>(value));
        *p = lanes[0];
    }

    void chunk(int64_t c, double* total) const {
        const int64_t first = tasks * c / chunks, last = tasks * (c + 1) / chunks;
        const Zeros<int64_t> index(rank), at(operands), to(results), each_at(W * operands), each_to(W * results);
        int64_t rest = first / blocks, block = first % blocks;
        for (int d = rank - 1; d >= 0; d--) {
            index[d] = rest % size[d];
            rest /= size[d];
            move(at, to, d, index[d]);
        }
        const int64_t length = blocks == 1 ? inner : ((inner + blocks - 1) / blocks + LINES - 1) / LINES * LINES;
        const Zeros<Gathered<V>> gathered(results);
        const Zeros<V> values(held * (abreast ? length : (length + W - 1) / W));
        const Zeros<Storage> turned(abreast ? (operands + results) * W * inner : 0);
        const Room<V, Storage> room{gathered.data, values.data, turned.data};
        for (int k = 0; k < results; k++) {
            gathered[k].abreast = abreast;
            if (is_added(k)) gathered[k].sums = new V[abreast ? length : (length + W - 1) / W]();
        }
        for (int64_t task = first, rows = 0; task < last && abreast; task += rows, rows = 0) {
            for (int k = 0; k < results; k++) {
                if (is_added(k)) gathered[k].take(total + result[k].place + to[k], inner);
            }
            for (bool follows = true; follows;) {  // of lanes that are left, what they had before is done again
                const int64_t left = rank > 0 ? size[rank - 1] - index[rank - 1] : 1, most = last - task - rows;
                const int64_t end = rows + (left < most ? left : most), next = end < W ? end : W;
                for (int k = 0; k < operands; k++) spread(each_at.data + k * W, rows, next, at[k], operand[k].step);
                for (int k = 0; k < results; k++) spread(each_to.data + k * W, rows, next, to[k], result[k].step);
                pass_on(index, at, to, next - rows);
                rows = next;
                follows = rows < W && task + rows < last;
                for (int k = 0; k < results; k++) follows = follows && (!is_added(k) || to[k] == each_to[k * W]);
            }
            row(each_at.data, each_to.data, total, room, 0, inner, rows);
        }
        for (int64_t task = first, rows = 1; task < last && !abreast; task += rows) {
            const int64_t begin = block * length, end = begin + length < inner ? begin + length : inner;
            for (int k = 0; k < results; k++) {
                if (is_added(k)) gathered[k].take(total + result[k].place + to[k] + begin, end - begin);
            }
            if (in_turn && blocks == 1) {
                const int64_t left = size[rank - 1] - index[rank - 1];
                rows = left < last - task ? left : last - task;
            }
            row(at.data, to.data, total, room, begin, end, rows);
            if (++block < blocks) continue;
            block = 0;
            pass_on(index, at, to, rows);
        }
        for (int k = 0; k < results; k++) gathered[k].release();
        end_streams();
    }

    // To the row after so many.
    void pass_on(const Zeros<int64_t>& index, const Zeros<int64_t>& at, const Zeros<int64_t>& to, int64_t rows) const {
        for (int d = rank - 1; d >= 0; d--) {
            const int64_t passed = d == rank - 1 ? rows : 1;
            move(at, to, d, passed);
            index[d] += passed;
            if (index[d] < size[d]) break;
            index[d] = 0;
            move(at, to, d, -size[d]);
        }
    }

    void spread(int64_t* places, int64_t row, int64_t end, int64_t place, const int64_t* step) const {
        for (; row < end; row++, place += rank > 0 ? step[rank - 1] : 0) places[row] = place;
    }

    // As many rows as a register has lanes, place by place, and the other way: so many places at once, a power of two, of
    // which the last ones may be done once more. Large, and compiled once for all passes.
    [[gnu::noinline]] static void turn(const Storage* __restrict data, const int64_t* __restrict at, int64_t length,
                                       Storage* __restrict places) {
        for (int64_t from = 0; from < length;) {
            const int64_t count = at_once(length - from, length), first = from + count < length ? from : length - count;
            turned<W>(count, data + first, at, places + first * W);
            from = first + count;
        }
    }

    [[gnu::noinline]] static void turn_back(const Storage* __restrict places, int64_t length, Storage* __restrict data,
                                            const int64_t* __restrict to, int64_t rows) {
        for (int64_t from = 0; from < length;) {
            const int64_t count = at_once(length - from, length), first = from + count < length ? from : length - count;
            turned_back<W>(count, places + first * W, data + first, to, rows);
            from = first + count;
        }
    }

    static int64_t at_once(int64_t left, int64_t length) {
        int64_t count = W;
        while (count > left && (count / 2 >= left || count > length)) count /= 2;
        return count;
    }

    // A register holds so many places of some rows; the rounds rotate the number of a register and the lane in it.
    template <int N>
    INLINE static void turned(int64_t count, const Storage* data, const int64_t* at, Storage* places) {
        if (count == N) {
            V x[N];
#pragma GCC unroll 16
            for (int i = 0; i < N; i++) {
                Storage lanes[W];
                for (int r = 0; r < W / N; r++) memcpy(lanes + r * N, data + at[i * (W / N) + r], N * sizeof *lanes);
                x[i] = load<V>(lanes);
            }
            if constexpr (N > 1) rotate<N, W>(x);
#pragma GCC unroll 16
            for (int j = 0; j < N; j++) store(places + j * W, x[j]);
        } else if constexpr (N > 1) {
            turned<N / 2>(count, data, at, places);
        }
    }

    template <int N>
    INLINE static void turned_back(int64_t count, const Storage* places, Storage* data, const int64_t* to, int64_t rows) {
        if (count == N) {
            V x[N];
#pragma GCC unroll 16
            for (int j = 0; j < N; j++) x[j] = load<V>(places + j * W);
            if constexpr (N > 1) rotate<N, N>(x);
#pragma GCC unroll 16
            for (int i = 0; i < N; i++) {
                Storage lanes[W];
                store(lanes, x[i]);
                for (int r = 0; r < W / N && i * (W / N) + r < rows; r++)
                    memcpy(data + to[i * (W / N) + r], lanes + r * N, N * sizeof *lanes);
            }
        } else if constexpr (N > 1) {
            turned_back<N / 2>(count, places, data, to, rows);
        }
    }

    void move(const Zeros<int64_t>& at, const Zeros<int64_t>& to, int d, int64_t count) const {
        for (int k = 0; k < operands; k++) at[k] += count * operand[k].step[d];
        for (int k = 0; k < results; k++) to[k] += count * result[k].step[d];
    }

    bool is_added(int k) const { return result[k].data && result[k].summed && result[k].inner; }
};

template <typename Kernel, unsigned wanted, typename Compute, typename Storage>
struct Pass final : Frame<Compute, Storage> {
    static constexpr int IN = Kernel::operands, OUT = Kernel::results;
    static constexpr int LINE = 64 / sizeof(Storage);  // of a cache
    static constexpr int NEAR = 16 * LINE, FAR = 128 * LINE;  // where the first and the second cache read ahead
    using Row = Rows<Kernel>;
    static constexpr bool every = (wanted & ~Row::once) != 0;  // some result has a value for each element
    using V = Lanes<Compute>;
    using Reduce = Reduction<Compute>;
    using Frame<Compute, Storage>::operand, Frame<Compute, Storage>::result;
    using Pick = Picks<Kernel>;
    using Pair = Pairs<Kernel>;
    static constexpr int READ = IN + Pick::numbered;  // after which there is what is held
    static constexpr int HELD = Held<Kernel>::values;
    static constexpr int BEFORE = Row::known + Pick::whole + Pick::places + Pick::elements;  // the last slots
    static constexpr int KEPT = __builtin_popcount(Row::keeps);  // results after the others, in the arithmetic's type
    static constexpr bool BESIDE = Row::reduced && !Pair::read && !Pair::written;  // rows may be abreast
    Operand operands_of_it[IN + Row::known + Pick::whole];
    Result results_of_it[OUT + KEPT];

    Pass(void* const* data, const int64_t* geometry, const double* numbers)
        : Frame<Compute, Storage>(
              operands_of_it, IN + Row::known + Pick::whole, results_of_it, OUT + KEPT, data, geometry, numbers,
              wanted | ~0u << OUT, Row::reduced, BESIDE) {
        for (int k = 0; k < OUT + KEPT; k++) {
            result[k].once = k >= OUT || Row::once >> k & 1;
            result[k].mean = Means<Kernel>::results >> k & 1;
            result[k].sum = Sums<Kernel>::results >> k & 1;
        }
        this->held = HELD;
    }

    static constexpr bool begins_pair(unsigned pairs, int k) { return pairs >> k & 1; }
    static constexpr bool ends_pair(unsigned pairs, int k) { return pairs << 1 >> k & 1; }
    static constexpr int64_t apart(unsigned pairs, int k) { return 1 + ((pairs | pairs << 1) >> k & 1); }

    // What happens to a result: nothing, if it is not wanted; else it is stored, or added to a sum for each place
    // along the inner dimension, or to one sum.
    enum Way : uint8_t { NOTHING, STORED, ADDED, TOTALLED };

    static constexpr bool may_be(Way way, int k) {
        if (!(wanted >> k & 1) || Row::once >> k & 1) return false;
        if (Kernel::stored >> k & 1) return way == STORED;
        return !(Kernel::totals >> k & 1) || way == TOTALLED;
    }

    // Elements begin to end along the inner dimension, strip by strip: there is one place where the formulas stand in
    // the machine code, and nothing in their way there. Of short rows many are done at once: one after the other where
    // they are not reduced, else abreast, which is one long row whose registers are the places of W rows.
    void row(const int64_t* at, const int64_t* to, double* total, const Room<V, Storage>& room, int64_t begin,
             int64_t end, int64_t rows) const override {
        const bool abreast = BESIDE && this->abreast;
        const int64_t lanes = abreast ? rows : 1, each = abreast ? W : 1;  // row, and for each tensor
        Storage* const turned = abreast ? room.turned : nullptr;
        Gathered<V>* const gathered = room.gathered;
        V* const values = room.values;
        double number[Kernel::numbers + 1];  // where no store can change them
        for (int k = 0; k < Kernel::numbers; k++) number[k] = this->number[k];
        Read in(*this, at, begin, end, turned);
        Storage *data[OUT], *start[OUT];
        Way way[OUT];
        bool streamed[OUT];
        Lanes<double> sum[OUT];
#pragma GCC unroll 16
        for (int k = 0; k < OUT; k++) {
            data[k] = static_cast<Storage*>(result[k].data);
            const bool added = may_be(ADDED, k) && result[k].inner;
            way[k] = !data[k] ? NOTHING : !result[k].summed ? STORED : added ? ADDED : TOTALLED;
            start[k] = !data[k] ? nullptr
                       : abreast ? turned + (IN + k) * W * end
                                 : data[k] + to[k] + begin * apart(Pair::written, k);
            sum[k] = 0;
        }
        V x[READ + HELD], y[OUT], reduced[Row::slots + 1], few[OUT], last[OUT];
        for (int k = 0; k < Row::known; k++)
            reduced[Row::slots - BEFORE + k] = of_rows(static_cast<const Compute*>(operand[IN + k].data), at + (IN + k) * each);
        if constexpr (BEFORE > Row::known) pick(at, reduced + Row::slots - BEFORE + Row::known, reduced, number);
        if constexpr (Row::stages > 0) reduce<0>(in, reduced, values, number);
        for (int k = 0, kept = OUT; k < Row::reductions; k++) {
            if (!(Row::keeps >> k & 1)) continue;
            for (int64_t r = 0; result[kept].data && r < lanes; r++)
                static_cast<Compute*>(result[kept].data)[to[kept * each + r]] = reduced[k][r];
            kept++;
        }
        for (;;) {
#pragma GCC unroll 16
            for (int k = 0; k < OUT; k++)
                streamed[k] = result[k].streamed && !abreast && reinterpret_cast<uintptr_t>(start[k]) % 64 == 0;
            for (Strip strip(in); strip; strip.next()) {
                Storage written[OUT][W];
                Storage *into[OUT], *coming[OUT];
                Compute* add[OUT];
                bool past[OUT];  // the caches
#pragma GCC unroll 16
                for (int k = 0; k < OUT; k++) {
                    past[k] = streamed[k] && !strip.is_partial();
                    few[k] = last[k] = 0;
                    into[k] = strip.is_partial() || !data[k] ? written[k] : start[k] + strip.at * apart(Pair::written, k);
                    coming[k] = abreast ? data[k] + to[k * each] + strip.at : into[k] + NEAR;
                    add[k] = reinterpret_cast<Compute*>(strip.is_partial() ? &last[k] : gathered[k].sums + strip.at / W);
                }
                for (int64_t i = 0; i < (every ? strip.length : W); i += W) {
                    strip.read(x, i);
                    strip.read_ahead(i);
                    if constexpr (Pick::numbered) x[IN] = in.places_from(strip.at + i);
                    for (int k = 0; k < HELD; k++) x[READ + k] = values[(strip.at + i) / W * HELD + k];
                    compute(x, reduced, y, number);
                    // Stores happen in order: those to sums, which are near, would wait for lines that come from memory.
#pragma GCC unroll 16
                    for (int k = 0; k < OUT; k++) {
                        if (may_be(STORED, k) && way[k] == STORED) {
                            if (begins_pair(Pair::written, k) && !strip.is_partial()) {
                                Storage* const p = into[k] + 2 * i;
                                V low, high;
                                as_pairs(y[k], y[k + 1 < OUT ? k + 1 : k], low, high);
                                if (past[k]) {
                                    stream(p, low);
                                    stream(p + W, high);
                                } else {
                                    for (int64_t j = 0; j < 2 * W; j += LINE) __builtin_prefetch(p + j + NEAR, 1);
                                    store(p, low);
                                    store(p + W, high);
                                }
                            } else if (ends_pair(Pair::written, k) && !strip.is_partial()) {
                                // It is there already.
                            } else if (past[k]) {
                                stream(into[k] + i, y[k]);
                            } else {
                                __builtin_prefetch(coming[k] + i, 1);
                                store(into[k] + i, y[k]);
                            }
                        } else if (may_be(TOTALLED, k) && way[k] == TOTALLED) {
                            few[k] = few[k] + y[k];
                        } else if (may_be(ADDED, k) && way[k] == ADDED) {
                            store(add[k] + i, load<V>(add[k] + i) + (BESIDE ? in.of_lanes(y[k], lanes) : y[k]));
                        }
                    }
                }
                if (!every) break;
#pragma GCC unroll 16
                for (int k = 0; k < OUT; k++) {
                    if (may_be(TOTALLED, k) && way[k] == TOTALLED)
                        sum[k] = sum[k] + convert<double>(strip.only(few[k], 0));
                    if (!strip.is_partial()) continue;
                    if (may_be(STORED, k) && way[k] == STORED) {
                        Storage* const p = start[k] + strip.at * apart(Pair::written, k);
                        for (int j = 0; j < in.rest; j++) p[j * apart(Pair::written, k)] = written[k][j];
                    } else if (may_be(ADDED, k) && way[k] == ADDED) {
                        V& own = gathered[k].sums[strip.at / W];
                        own = own + strip.only(last[k], 0);
                    }
                }
            }
            if (Row::reduced || --rows == 0) break;
            in.next();
#pragma GCC unroll 16
            for (int k = 0; k < OUT; k++) {
                if (data[k]) start[k] += result[k].step[this->rank - 1];
            }
        }
#pragma GCC unroll 16
        for (int k = 0; k < OUT; k++) {
            if (wanted & Row::once & 1u << k) {
                for (int64_t r = 0; r < lanes; r++) {
                    if (way[k] == STORED) this->store_one(data[k] + to[k * each + r], y[k][r]);
                    if (way[k] == TOTALLED) total[result[k].place] += y[k][r];
                }
            } else if (may_be(TOTALLED, k) && way[k] == TOTALLED) {
                for (int64_t r = 0; r < lanes; r++)
                    total[result[k].place + to[k * each + r]] += abreast ? sum[k][r] : Reduce::across('+', sum[k]);
            } else if (BESIDE && abreast && may_be(STORED, k) && way[k] == STORED) {
                this->turn_back(start[k], end, data[k], to + k * W, lanes);
            }
        }
    }

    // A number of each row, in all lanes or in its own one.
    template <typename T>
    INLINE V of_rows(const T* data, const int64_t* at) const {
        if (!BESIDE || !this->abreast) return V(static_cast<double>(data[*at]));
        Compute lanes[W];
        for (int r = 0; r < W; r++) lanes[r] = static_cast<Compute>(data[at[r]]);
        return load<V>(lanes);
    }

    // What is read along the inner dimension: registers of it that are whole, and the rest of a last one, which stands
    // in a copy that is filled up with other elements of the row. A value that does not change stands there as often as a
    // strip is long. Of rows that are abreast a register has one place.
    struct Read {
        const Storage* from[IN];
        const Storage* start[IN];
        int64_t along[IN], whole, rest;  // a mask for the index; elements
        int64_t step[IN];                // the way to the next row
        int64_t soon[IN], later[IN];     // the way to what is read then
        bool plain;                      // registers are whole, and all values change along a row
        bool abreast;
        Storage last[IN][W], still[IN][FEW];

        Read(const Pass& pass, const int64_t* at, int64_t begin, int64_t end, Storage* turned) : abreast(turned) {
            rest = abreast ? 0 : (end - begin) % W;
            whole = abreast ? end * W : end - begin - rest;
            plain = rest == 0;
#pragma GCC unroll 16
            for (int k = 0; k < IN; k++) {
                const Operand& own = pass.operand[k];
                along[k] = own.inner;
                step[k] = pass.rank > 0 ? own.step[pass.rank - 1] : 0;
                if (BESIDE && abreast) {
                    soon[k] = later[k] = 0;
                    beside(k, pass, at + k * W, end, turned + k * W * end);
                    continue;
                }
                soon[k] = NEAR & along[k];
                later[k] = (Row::reduced ? step[k] : FAR) & along[k];
                plain = plain && along[k];
                start[k] = static_cast<const Storage*>(own.data) + at[k] + (begin & along[k]) * apart(Pair::read, k);
                fill(k);
            }
        }

        INLINE void beside(int k, const Pass& pass, const int64_t* at, int64_t length, Storage* turned) {
            const Storage* const data = static_cast<const Storage*>(pass.operand[k].data);
            from[k] = start[k] = along[k] ? turned : still[k];
            if (along[k]) {
                pass.turn(data, at, length, turned);
                later[k] = data + at[0] + W * step[k] - turned;  // where the rows after these begin
            } else {
                Storage lanes[W];
                for (int r = 0; r < W; r++) lanes[r] = data[at[r]];
                for (int64_t j = 0; j < whole && j < FEW; j += W) memcpy(still[k] + j, lanes, sizeof lanes);
            }
        }

        // Which places in their rows these elements have.
        INLINE V places_from(int64_t first) const {
            if (abreast) return V(static_cast<double>(first / W));
            Compute lanes[W];
            for (int j = 0; j < W; j++) lanes[j] = static_cast<Compute>(j);
            return load<V>(lanes) + V(static_cast<double>(first));
        }

        // The lanes that have a row.
        INLINE V of_lanes(V y, int64_t rows) const {
            if (!abreast || rows == W) return y;
            Compute lanes[W];
            for (int r = 0; r < W; r++) lanes[r] = r < rows ? y[r] : 0;
            return load<V>(lanes);
        }

        // The same of the row after it.
        INLINE void next() {
#pragma GCC unroll 16
            for (int k = 0; k < IN; k++) from[k] = start[k] += step[k];
#pragma GCC unroll 16
            for (int k = 0; !plain && k < IN; k++) fill(k);
        }

        INLINE void fill(int k) {
            from[k] = start[k];
            if (begins_pair(Pair::read, k) || ends_pair(Pair::read, k)) {  // the second ones are read with the first
                for (int j = 0; rest && begins_pair(Pair::read, k) && j < 2 * W; j++)
                    (&last[0][0])[k * W + j] = start[k][2 * whole + (j < 2 * rest ? j : 0)];
            } else if (rest || along[k] == 0) {
                from[k] = filled(start[k], along[k], whole, rest, last[k], still[k]);
            }
        }
    };

    // A few registers of what is read, or the last one alone if it is not whole.
    struct Strip {
        const Read& in;
        const Storage* from[IN];
        int64_t at = 0, length;

        explicit Strip(const Read& read) : in(read) { locate(); }

        explicit operator bool() const { return at < in.whole + in.rest; }
        bool is_partial() const { return at == in.whole; }

        void next() {
            at += length;
            locate();
        }

        void locate() {
            length = is_partial() ? W : in.whole - at < FEW ? in.whole - at : FEW;
#pragma GCC unroll 16
            for (int k = 0; k < IN; k++) from[k] = is_partial() ? in.last[k] : in.from[k] + (at & in.along[k]) * apart(Pair::read, k);
        }

        INLINE void read(V* x, int64_t i) const {
#pragma GCC unroll 16
            for (int k = 0; k < IN; k++) {
                if (begins_pair(Pair::read, k)) load_pairs(from[k] + 2 * i, x[k], x[k + 1 < IN ? k + 1 : k]);
                else if (!ends_pair(Pair::read, k)) x[k] = load<V>(from[k] + i);
            }
        }

        // Has what is read later brought nearer while this is computed with. Processors do so by themselves only within
        // a page of memory, and not at all where a row is read once more, which leaves memory idle.
        INLINE void read_ahead(int64_t i) const {
#pragma GCC unroll 16
            for (int k = 0; k < IN; k++) {
                if (ends_pair(Pair::read, k)) continue;
                for (int64_t j = i * apart(Pair::read, k); j < (i + W) * apart(Pair::read, k); j += LINE) {
                    __builtin_prefetch(from[k] + in.later[k] + j, 0, 2);
                    if (!Row::reduced) __builtin_prefetch(from[k] + in.soon[k] + j, 0, 3);
                }
            }
        }

        // The lanes that belong to elements, and another value in place of the others.
        V only(V y, double other) const {
            if (!is_partial()) return y;
            Compute lanes[W];
            for (int j = 0; j < W; j++) lanes[j] = j < in.rest ? y[j] : static_cast<Compute>(other);
            return load<V>(lanes);
        }
    };

    // What is known of a row before it is read. Where a number is no place in the row, nothing is read there.
    INLINE void pick(const int64_t* at, V* own, V* row, [[maybe_unused]] const double* number) const {
        constexpr int FIRST = IN + Row::known;
        const bool abreast = BESIDE && this->abreast;
        const int64_t each = abreast ? W : 1;
        for (int k = 0; k < Pick::whole; k++)
            own[k] = of_rows(static_cast<const int64_t*>(operand[FIRST + k].data), at + (FIRST + k) * each);
        [[maybe_unused]] int64_t place[Pick::places + 1][W] = {};
        if constexpr (Pick::places > 0) {
            Kernel::locate(row, number);
            for (int k = 0; k < Pick::places; k++) {
                for (int r = 0; r < W; r++) {
                    const double named = own[Pick::whole + k][r];
                    const bool within = named >= 0 && named < static_cast<double>(this->inner);
                    if (!within) __atomic_store_n(&this->strayed, true, __ATOMIC_RELAXED);
                    place[k][r] = within ? static_cast<int64_t>(named) : 0;
                    if (!abreast) break;
                }
            }
        }
        for (int k = 0; k < Pick::elements; k++) {
            const Operand& of = operand[Kernel::picked[k][0]];
            const int at_place = Kernel::picked[k][1];  // -1 of an operand that has one element for the row
            Storage elements[W];
            for (int r = 0; r < W; r++) {
                const int64_t start = at[Kernel::picked[k][0] * each + (abreast ? r : 0)];
                const int64_t own_place = at_place < 0 ? 0 : place[at_place][abreast ? r : 0];
                elements[r] = static_cast<const Storage*>(of.data)[start + (own_place & of.inner)];
            }
            own[Pick::whole + Pick::places + k] = load<V>(elements);
        }
    }

    static void compute(const V* x, [[maybe_unused]] const V* reduced, V* y, const double* number) {
        if constexpr (Row::reduced)
            Kernel::template at<wanted, V>(x, reduced, y, number);
        else
            Kernel::template at<wanted, V>(x, y, number);
    }

    // One pass over a row for the reductions that need no later one. Two registers take what they reduce in turn, so
    // that an addition need not wait for the one before.
    template <int stage>
    static void reduce(const Read& in, V* reduced, V* values, const double* number) {
        if constexpr (stage > 0 || BEFORE == 0) sweep<stage>(in, reduced, values, number);
        Kernel::template settle<stage, V>(reduced, number);
        if constexpr (stage + 1 < Row::stages) reduce<stage + 1>(in, reduced, values, number);
    }

    template <int stage>
    static void sweep(const Read& in, V* reduced, V* values, const double* number) {
        constexpr int R = Row::reductions;
        V x[READ + HELD], partial[R], other[R], all[R];
#pragma GCC unroll 16
        for (int k = 0; k < R; k++) all[k] = Reduce::neutral(Row::kind(k));
        for (Strip strip(in); strip; strip.next()) {
#pragma GCC unroll 16
            for (int k = 0; k < R; k++) partial[k] = other[k] = Reduce::neutral(Row::kind(k));
            for (int64_t i = 0; i < strip.length; i += W) {
                strip.read(x, i);
                if constexpr (stage == 0 && !every) strip.read_ahead(i);
                if constexpr (Pick::numbered) x[IN] = in.places_from(strip.at + i);
                V* const own = values + (strip.at + i) / W * HELD;
                for (int k = 0; k < HELD; k++) {
                    if (Held<Kernel>::stage(k) < stage) x[READ + k] = own[k];
                }
                Kernel::template reduce<stage, V>(x, reduced, partial, number);
                for (int k = 0; k < HELD; k++) {
                    if (Held<Kernel>::stage(k) == stage) own[k] = x[READ + k];
                }
#pragma GCC unroll 16
                for (int k = 0; k < R; k++) {
                    const V own = partial[k];
                    partial[k] = other[k];
                    other[k] = own;
                }
            }
#pragma GCC unroll 16
            for (int k = 0; k < R; k++) {
                const char kind = Row::kind(k);
                all[k] = Reduce::combined(kind, all[k], strip.only(Reduce::combined(kind, partial[k], other[k]), Reduce::neutral(kind)));
            }
        }
#pragma GCC unroll 16
        for (int k = 0; k < R; k++) {
            if (Kernel::stage_of[k] == stage) reduced[k] = in.abreast ? all[k] : V(Reduce::across(Row::kind(k), all[k]));
        }
    }
};

// ------------------------------------------------------------------------------------------------ entries
// A library is of one kind of elements.
#ifndef STORAGE
#define STORAGE float
#endif
using Storage = STORAGE;
using Compute = std::conditional_t<std::is_same_v<Storage, double>, double, float>;

// What a pass is called with. The addresses of its operands and results follow, then its numbers.
struct Call {
    const int64_t* geometry;
    int64_t threads, wanted;
};

// Runs a pass, and tells whether some whole number is no place in its row.
template <typename Kernel, unsigned wanted, typename Computed, int addresses>
int run(const Call* call) {
    void* const* const data = reinterpret_cast<void* const*>(call + 1);
    const double* const number = reinterpret_cast<const double*>(data + addresses);
    Pass<Kernel, wanted, Computed, Storage> pass(data, call->geometry, number);
    pass(static_cast<int>(call->threads));
    return pass.strayed;
}
