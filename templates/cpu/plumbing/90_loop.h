// ------------------------------------------------------------------------------------------------ loops
// A geometry is what Python found out about the shapes, in elements:
//   rank, inner, then the rank sizes of the outer dimensions; for each operand its step along the inner dimension
//   (0 or 1) and along the outer ones; for each result the same, after its size if it is summed, else 0.
// A summed result is a gradient of a broadcast tensor: all elements of the pass add to it, in float64. What each place
// of a few rows adds is summed before that, as it was computed, so that it stays in the nearest cache.
constexpr int64_t BLOCK = 8192;      // elements of the inner dimension in one task
constexpr int64_t GRAIN = 32768;     // elements that are worth a thread
constexpr int64_t MOST_CHUNKS = 64;  // partial sums; their number does not depend on the number of threads
constexpr int64_t FEW_ROWS = 8;      // over which a sum for each place of a row is kept in the arithmetic's type
constexpr int MOST_RANK = 16;

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
struct Rows {
    static constexpr bool reduced = false;
    static constexpr int stages = 0, reductions = 0, slots = 0;
    static constexpr unsigned once = 0;
    static constexpr char kind(int) { return '+'; }
};
template <typename Kernel>
struct Rows<Kernel, std::void_t<decltype(Kernel::stages)>> {
    static constexpr bool reduced = true;
    static constexpr int stages = Kernel::stages, reductions = sizeof Kernel::reductions - 1, slots = Kernel::slots;
    static constexpr unsigned once = Kernel::once;
    static constexpr char kind(int k) { return Kernel::reductions[k]; }
};

template <typename Kernel, unsigned wanted, typename Compute, typename Storage>
struct Pass {
    static constexpr int IN = Kernel::operands, OUT = Kernel::results;
    using Row = Rows<Kernel>;
    using V = Lanes<Compute>;
    const Storage* operand[IN];
    Storage* result[OUT];
    const double* number;
    int64_t rank, inner, elements, size[MOST_RANK], blocks, tasks, chunks;
    int64_t operand_inner[IN], operand_step[IN][MOST_RANK];
    int64_t result_inner[OUT], result_step[OUT][MOST_RANK], summed[OUT], place[OUT], sums = 0;

    Pass(void* const* data, const int64_t* geometry, const double* numbers) : number(numbers) {
        rank = *geometry++;
        inner = *geometry++;
        int64_t outer = 1;
        for (int d = 0; d < rank; d++) outer *= size[d] = *geometry++;
        for (int k = 0; k < IN; k++) {
            operand[k] = static_cast<const Storage*>(data[k]);
            operand_inner[k] = -*geometry++;
            for (int d = 0; d < rank; d++) operand_step[k][d] = *geometry++;
        }
        for (int k = 0; k < OUT; k++) {
            result[k] = static_cast<Storage*>(data[IN + k]);
            summed[k] = *geometry++;
            place[k] = sums;
            if (wanted >> k & 1) sums += summed[k];
            result_inner[k] = -*geometry++;
            for (int d = 0; d < rank; d++) result_step[k][d] = *geometry++;
        }
        blocks = inner > 2 * BLOCK && !Row::reduced ? (inner + BLOCK - 1) / BLOCK : 1;
        tasks = outer * blocks;
        elements = outer * inner;
        const int64_t grains = elements / GRAIN;
        chunks = grains < 2 ? 1 : grains < MOST_CHUNKS ? grains : MOST_CHUNKS;
        if (chunks > tasks) chunks = tasks > 0 ? tasks : 1;
        if (sums * chunks > elements / 4 + 256) chunks = sums > elements / 4 ? 1 : elements / 4 / sums + 1;
    }

    void operator()(int threads) {
        double few[256];
        std::vector<double> many;
        double* total = few;
        if (sums * chunks > 256) {
            many.resize(sums * chunks);
            total = many.data();
        } else {
            for (int64_t i = 0; i < sums * chunks; i++) few[i] = 0;
        }
        if (chunks == 1 || threads == 1) {
            for (int64_t c = 0; c < chunks; c++) chunk(c, total + c * sums);
        } else {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
            for (int64_t c = 0; c < chunks; c++) chunk(c, total + c * sums);
        }
        for (int k = 0; k < OUT; k++) {
            if (!(wanted >> k & 1)) continue;
            for (int64_t i = 0; i < summed[k] && result[k]; i++) {
                double sum = 0;
                for (int64_t c = 0; c < chunks; c++) sum += total[c * sums + place[k] + i];
                store_one(result[k] + i, Means<Kernel>::results >> k & 1 ? sum / elements : sum);
            }
        }
    }

    static void store_one(Storage* p, double value) {
        Storage lanes[W];
        store(lanes, Lanes<Compute>(value));
        *p = lanes[0];
    }

    void chunk(int64_t c, double* total) const {
        const int64_t first = tasks * c / chunks, last = tasks * (c + 1) / chunks;
        if (first == last) return;
        int64_t index[MOST_RANK], at[IN], to[OUT] = {};
        for (int k = 0; k < IN; k++) at[k] = 0;
        int64_t rest = first / blocks, block = first % blocks;
        for (int d = rank - 1; d >= 0; d--) {
            index[d] = rest % size[d];
            rest /= size[d];
            for (int k = 0; k < IN; k++) at[k] += index[d] * operand_step[k][d];
            for (int k = 0; k < OUT; k++) to[k] += index[d] * result_step[k][d];
        }
        const int64_t length = (inner + blocks - 1) / blocks;
        Gathered gathered[OUT];
        for (int k = 0; k < OUT; k++) {
            if (is_added(k)) gathered[k].sums.resize((length + W - 1) / W);
        }
        for (int64_t task = first; task < last; task++) {
            const int64_t begin = block * length, end = begin + length < inner ? begin + length : inner;
            for (int k = 0; k < OUT; k++) {
                if (is_added(k)) gathered[k].take(total + place[k] + to[k] + begin, end - begin);
            }
            row(at, to, total, gathered, begin, end);
            if (++block < blocks) continue;
            block = 0;
            for (int d = rank - 1; d >= 0; d--) {
                for (int k = 0; k < IN; k++) at[k] += operand_step[k][d];
                for (int k = 0; k < OUT; k++) to[k] += result_step[k][d];
                if (++index[d] < size[d]) break;
                index[d] = 0;
                for (int k = 0; k < IN; k++) at[k] -= size[d] * operand_step[k][d];
                for (int k = 0; k < OUT; k++) to[k] -= size[d] * result_step[k][d];
            }
        }
        for (int k = 0; k < OUT; k++) gathered[k].release();
    }

    bool is_added(int k) const { return (wanted >> k & 1) && result[k] && summed[k] && result_inner[k]; }

    // What each place of a few rows adds to the sums at `target`.
    struct Gathered {
        std::vector<V> sums;
        double* target = nullptr;
        int64_t length = 0, rows = 0;

        void take(double* next, int64_t count) {
            if (next != target || rows == FEW_ROWS) release();
            target = next;
            length = count;
            rows++;
        }

        void release() {
            for (int64_t i = 0; rows && i < length; i += W) {
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

    // What happens to a result: nothing, if it is not wanted; else it is stored, or added to a sum for each place
    // along the inner dimension, or to one sum.
    enum Way : uint8_t { NOTHING, STORED, ADDED, TOTALLED };

    // Elements begin to end along the inner dimension. A value that does not change along it stands W times in a
    // buffer: with a mask of 0 in place of -1 the index stays there.
    void row(
        const int64_t* at, const int64_t* to, double* total, Gathered* gathered, int64_t begin, int64_t end) const {
        Storage still[IN][W];
        const Storage* from[IN];
        int64_t along[IN];
        Storage* into[OUT];
        V* add[OUT];
        Way way[OUT];
        Lanes<double> sum[OUT];
        double rest[OUT];
#pragma GCC unroll 16
        for (int k = 0; k < IN; k++) {
            from[k] = operand[k] + at[k];
            along[k] = operand_inner[k];
            if (along[k] == 0) {
                for (int i = 0; i < W; i++) still[k][i] = *from[k];
                from[k] = still[k];
            }
        }
#pragma GCC unroll 16
        for (int k = 0; k < OUT; k++) {
            way[k] = !result[k] ? NOTHING : !summed[k] ? STORED : is_added(k) ? ADDED : TOTALLED;
            into[k] = result[k] ? result[k] + to[k] : nullptr;
            add[k] = gathered[k].sums.data();
            sum[k] = rest[k] = 0;
        }
        V x[IN], y[OUT], reduced[Row::slots + 1];
        if constexpr (Row::stages > 0) reduce<0>(from, reduced, begin, end);
        constexpr bool every = (wanted & ~Row::once) != 0;  // some result has a value for each element
        int64_t i = begin;
        for (; i + W <= end && every; i += W) {
            read(from, along, x, i);
            compute(x, reduced, y);
#pragma GCC unroll 16
            for (int k = 0; k < OUT; k++) {
                if (!(wanted >> k & 1) || Row::once >> k & 1) continue;
                if (way[k] == STORED) {
                    store(into[k] + i, y[k]);
                } else if (way[k] == TOTALLED) {
                    sum[k] = sum[k] + convert<double>(y[k]);
                } else if (way[k] == ADDED) {
                    add[k][(i - begin) / W] = add[k][(i - begin) / W] + y[k];
                }
            }
        }
        if (i < end) {
            const int64_t count = end - i < W ? end - i : W;
            Storage padded[W];
            Compute last[W];
            read_last(from, x, i, count);
            compute(x, reduced, y);
#pragma GCC unroll 16
            for (int k = 0; k < OUT; k++) {
                if (!(wanted >> k & 1) || Row::once >> k & 1) continue;
                if (way[k] == STORED) {
                    store(padded, y[k]);
                    for (int j = 0; j < count; j++) into[k][i + j] = padded[j];
                } else if (way[k] == TOTALLED) {
                    for (int j = 0; j < count; j++) rest[k] += y[k][j];
                } else if (way[k] == ADDED) {
                    for (int j = 0; j < W; j++) last[j] = j < count ? y[k][j] : 0;
                    add[k][(i - begin) / W] = add[k][(i - begin) / W] + load<V>(last);
                }
            }
        }
#pragma GCC unroll 16
        for (int k = 0; k < OUT; k++) {
            if (!(wanted >> k & 1)) continue;
            if (Row::once >> k & 1) {
                if (way[k] == STORED) store_one(into[k], y[k][0]);
            } else if (way[k] == TOTALLED) {
                for (int j = 0; j < W; j++) rest[k] += sum[k][j];
                total[place[k] + to[k]] += rest[k];
            }
        }
    }

    INLINE void read(const Storage* const* from, const int64_t* along, V* x, int64_t i) const {
#pragma GCC unroll 16
        for (int k = 0; k < IN; k++) x[k] = load<V>(from[k] + (i & along[k]));
    }

    // The last few elements, beside copies of the first of them.
    void read_last(const Storage* const* from, V* x, int64_t i, int64_t count) const {
#pragma GCC unroll 16
        for (int k = 0; k < IN; k++) {
            const Storage* p = from[k] + (i & operand_inner[k]);
            Storage padded[W];
            for (int j = 0; j < W; j++) padded[j] = p[(j < count ? j : 0) & operand_inner[k]];
            x[k] = load<V>(padded);
        }
    }

    void compute(const V* x, [[maybe_unused]] const V* reduced, V* y) const {
        if constexpr (Row::reduced)
            Kernel::template at<wanted, V>(x, reduced, y, number);
        else
            Kernel::template at<wanted, V>(x, y, number);
    }

    // One pass over a row for the reductions that need no later one.
    template <int stage>
    void reduce(const Storage* const* from, V* reduced, int64_t begin, int64_t end) const {
        V x[IN], partial[Row::reductions], last[Row::reductions];
#pragma GCC unroll 16
        for (int k = 0; k < Row::reductions; k++) partial[k] = last[k] = neutral(Row::kind(k));
        int64_t i = begin;
        for (; i + W <= end; i += W) {
            read(from, operand_inner, x, i);
            Kernel::template reduce<stage, V>(x, reduced, partial, number);
        }
        const int64_t count = end - i;
        if (count > 0) {
            read_last(from, x, i, count);
            Kernel::template reduce<stage, V>(x, reduced, last, number);
        }
#pragma GCC unroll 16
        for (int k = 0; k < Row::reductions; k++) {
            if (Kernel::stage_of[k] != stage) continue;
            double all = neutral(Row::kind(k));
            for (int j = 0; j < W; j++) all = combined(Row::kind(k), all, partial[k][j]);
            for (int j = 0; j < count; j++) all = combined(Row::kind(k), all, last[k][j]);
            reduced[k] = all;
        }
        Kernel::template settle<stage, V>(reduced, number);
        if constexpr (stage + 1 < Row::stages) reduce<stage + 1>(from, reduced, begin, end);
    }

    static double neutral(char kind) {
        return kind == '+' ? 0 : kind == '>' ? -__builtin_inf() : __builtin_inf();
    }

    static double combined(char kind, double a, double b) {
        if (kind == '+') return a + b;
        if (a != a || b != b) return a != a ? a : b;
        return (kind == '>') == (a > b) ? a : b;
    }
};
