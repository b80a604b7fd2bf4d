/* One pass over the memory of many arrays. For each array, it computes the norm, all statistics, a
 * digest, statistics and a digest, or the distribution over powers of two; or it copies the array.
 *
 * Sums are computed in double, so sums of float32 values do not overflow, underflow or cancel, and
 * values that are not finite make the sum of squares not finite. Python decides what to do with
 * such arrays. The loops are written in lanes, which a compiler can vectorize without permission to
 * reorder sums; the order is the same on every machine.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* On x86, the widest available instructions are chosen when the module is loaded. They are chosen
 * by features, because a name such as "arch=haswell" matches only that maker's machines. */
#if !defined(__x86_64__) || !defined(__linux__) || !defined(__GLIBC__) || !defined(__GNUC__)
#define WIDEST
#elif __GNUC__ >= 12
#define WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#include "_limited.h"
#include "_team.h"
#include "_xxh3.h"

#define SQUARE_LANES 64
#define LANES 16 /* lanes per column; with seven columns, more do not fit into registers */
#define BLOCK 2048 /* elements whose magnitudes are added in float32: 128 per lane */
/* Shorter work, up to some milliseconds, holds the GIL, as operations of a framework do: getting it
 * back may take longer than the work. */
#define UNSHARED_BYTES (1 << 26)

/* Kinds below SUMMARIZED have norms and statistics; all kinds have tallies. */
enum kind { FLOAT32, BFLOAT16, FLOAT16, FLOAT64, SUMMARIZED, BYTE = SUMMARIZED, KINDS };
static const int64_t element_bytes[KINDS] = {4, 2, 2, 8, 1};

enum column { ZERO, MIN, MAX, MEAN, DEVIATION, ABS_SUM, NORM, COLUMNS };

static inline float float32(const void *values, int64_t i) { return ((const float *)values)[i]; }
static inline float bfloat16(const void *values, int64_t i)
{
    uint32_t bits = (uint32_t)((const uint16_t *)values)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The digits times a power of two, with operations that exist for vectors; NaN becomes infinite. */
static inline float float16(const void *values, int64_t i)
{
    int32_t half = ((const uint16_t *)values)[i], exponent = half >> 10 & 0x1f;
    int32_t normal = exponent > 0, digits = (half & 0x3ff) | normal << 10;
    int32_t power = exponent + !normal - 25 + 127;
    uint32_t bits = (uint32_t)(exponent == 0x1f ? 0xff : power) << 23 | (uint32_t)(half >> 15) << 31;
    float unit;
    memcpy(&unit, &bits, sizeof unit);
    return (float)digits * unit;
}

static inline double float64(const void *values, int64_t i) { return ((const double *)values)[i]; }

/* Return the sum of squares. */
#define DEFINE_SQUARES(TYPE)                                                 \
    WIDEST static double squares_##TYPE(const void *values, int64_t count)   \
    {                                                                        \
        double squares[SQUARE_LANES] = {0}, square = 0;                      \
        int64_t i = 0;                                                       \
        for (; i + SQUARE_LANES <= count; i += SQUARE_LANES)                 \
            for (int lane = 0; lane < SQUARE_LANES; lane++) {                \
                double value = TYPE(values, i + lane);                       \
                squares[lane] += value * value;                              \
            }                                                                \
        for (; i < count; i++) {                                             \
            double value = TYPE(values, i);                                  \
            square += value * value;                                         \
        }                                                                    \
        for (int lane = 0; lane < SQUARE_LANES; lane++)                      \
            square += squares[lane];                                         \
        return square;                                                       \
    }

DEFINE_SQUARES(float32)
DEFINE_SQUARES(bfloat16)
DEFINE_SQUARES(float16)
DEFINE_SQUARES(float64)

/* Maximum share of the sum of squares about the pivot that the mean may explain: above it, rounding
 * changes the seventh digit of the deviation. */
#define MOST_EXPLAINED (1 - 1e-9)

/* Below this sum, squares of float64 values may have underflowed (the smallest is 5e-324); squares
 * of the other types are at least 1e-90. */
#define VANISHING 1e-270

static double squares_or_unknown(const void *values, int64_t count)
{
    double square = squares_float64(values, count);
    for (int64_t i = 0; square < VANISHING && i < count; i++)
        if (float64(values, i) != 0)
            return NAN;
    return square;
}

static void finish(double *row, int64_t count, double pivot, double sum, double square)
{
    double explained = sum * sum / (double)count;
    row[MEAN] = pivot + sum / (double)count;
    row[DEVIATION] = explained > square * MOST_EXPLAINED ? NAN : sqrt(square - explained);
    row[NORM] = sqrt(square + 2 * pivot * sum + (double)count * pivot * pivot);
}

/* Set values to NaN if squares that they are computed from may have underflowed. */
static void distrust(double *row, double square)
{
    if (row[MAX] > row[MIN] && square < VANISHING)
        row[DEVIATION] = NAN;
    if (row[ABS_SUM] > 0 && row[NORM] * row[NORM] < VANISHING)
        row[NORM] = NAN;
}

/* Compute all columns, from at least one element. Sums are about the first element, so that the
 * deviation is not a small difference of large sums. If `hash` is given, it digests each block
 * immediately before, so each block is fetched from memory only once. */
#define DEFINE_SUMMARY(TYPE, BYTES, VALUE, ABSOLUTE)                                      \
    WIDEST static void summary_##TYPE(const void *values, int64_t count, double *row, Hash *hash) \
    {                                                                                     \
        const VALUE first = TYPE(values, 0);                                              \
        const double pivot = first;                                                       \
        double sums[LANES] = {0}, squares[LANES] = {0};                                   \
        VALUE low[LANES], high[LANES];                                                    \
        double sum = 0, square = 0, magnitude = 0;                                        \
        int64_t zeros = 0, i = 0;                                                         \
        for (int lane = 0; lane < LANES; lane++)                                          \
            low[lane] = high[lane] = first;                                               \
        while (i + LANES <= count) {                                                      \
            int64_t end = i + BLOCK <= count ? i + BLOCK : count - (count - i) % LANES;   \
            VALUE magnitudes[LANES] = {0};                                                \
            int32_t zero[LANES] = {0};                                                    \
            if (hash != NULL)                                                             \
                hash_up_to(hash, values, end * BYTES, count * BYTES);                     \
            for (; i < end; i += LANES) {                                                 \
                FETCH((const char *)values + i * BYTES + AHEAD);                          \
                for (int lane = 0; lane < LANES; lane++) {                                \
                    VALUE value = TYPE(values, i + lane);                                 \
                    double apart = (double)value - pivot;                                 \
                    sums[lane] += apart;                                                  \
                    squares[lane] += apart * apart;                                       \
                    magnitudes[lane] += ABSOLUTE(value);                                  \
                    low[lane] = value < low[lane] ? value : low[lane];                    \
                    high[lane] = value > high[lane] ? value : high[lane];                 \
                    zero[lane] += value == 0;                                             \
                }                                                                         \
            }                                                                             \
            for (int lane = 0; lane < LANES; lane++) {                                    \
                magnitude += magnitudes[lane];                                            \
                zeros += zero[lane];                                                      \
            }                                                                             \
        }                                                                                 \
        for (; i < count; i++) {                                                          \
            VALUE value = TYPE(values, i);                                                \
            double apart = (double)value - pivot;                                         \
            sum += apart;                                                                 \
            square += apart * apart;                                                      \
            magnitude += ABSOLUTE(value);                                                 \
            low[0] = value < low[0] ? value : low[0];                                     \
            high[0] = value > high[0] ? value : high[0];                                  \
            zeros += value == 0;                                                          \
        }                                                                                 \
        for (int lane = 0; lane < LANES; lane++) {                                        \
            sum += sums[lane];                                                            \
            square += squares[lane];                                                      \
            low[0] = low[lane] < low[0] ? low[lane] : low[0];                             \
            high[0] = high[lane] > high[0] ? high[lane] : high[0];                        \
        }                                                                                 \
        finish(row, count, pivot, sum, square);                                           \
        row[ZERO] = (double)zeros;                                                        \
        row[MIN] = low[0];                                                                \
        row[MAX] = high[0];                                                               \
        row[ABS_SUM] = magnitude;                                                         \
        distrust(row, square);                                                            \
    }

DEFINE_SUMMARY(float32, 4, float, fabsf)
DEFINE_SUMMARY(bfloat16, 2, float, fabsf)
DEFINE_SUMMARY(float16, 2, float, fabsf)
DEFINE_SUMMARY(float64, 8, double, fabs)

static double (*const squares_of[SUMMARIZED])(const void *, int64_t) = {
    squares_float32, squares_bfloat16, squares_float16, squares_or_unknown};
static void (*const summary_of[SUMMARIZED])(const void *, int64_t, double *, Hash *) = {
    summary_float32, summary_bfloat16, summary_float16, summary_float64};

/* Distribution of values over powers of two. Vector instructions compute the bin of each value; the
 * bins are then counted in four tables in turn, because each count in a single table would wait for
 * the previous write. */
#define BINS 64
#define LOWEST_POWER (-40)
#define UNCOUNTED (2 * BINS) /* zeros, NaN, infinities */
#define TALLIES 256
#define TABLES 4

/* Computed from bits, so the processor's handling of denormals has no effect. Negative values come
 * first. */
static inline uint8_t bin_of(int32_t exponent, int32_t bias, int32_t negative, int32_t counted)
{
    int32_t bin = exponent - bias - LOWEST_POWER;
    bin = bin < 0 ? 0 : bin;
    bin = bin > BINS - 1 ? BINS - 1 : bin;
    return (uint8_t)(counted ? bin + (negative ? 0 : BINS) : UNCOUNTED);
}

static inline uint8_t bin_of_bits(uint32_t bits)
{
    int32_t exponent = (int32_t)(bits >> 23 & 0xff);
    return bin_of(exponent, 127, bits >> 31 != 0, (bits << 1 != 0) & (exponent != 0xff));
}

static inline uint8_t bin_float32(const void *values, int64_t i)
{
    return bin_of_bits(((const uint32_t *)values)[i]);
}

static inline uint8_t bin_bfloat16(const void *values, int64_t i)
{
    return bin_of_bits((uint32_t)((const uint16_t *)values)[i] << 16);
}

static inline uint8_t bin_float16(const void *values, int64_t i)
{
    float value = float16(values, i);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bin_of_bits(bits);
}

static inline uint8_t bin_float64(const void *values, int64_t i)
{
    uint64_t bits = ((const uint64_t *)values)[i];
    int32_t exponent = (int32_t)(bits >> 52 & 0x7ff);
    return bin_of(exponent, 1023, bits >> 63 != 0, (bits << 1 != 0) & (exponent != 0x7ff));
}

static void tally_byte(const void *values, int64_t count, int64_t *table)
{
    const uint8_t *byte = values;
    int64_t tables[TABLES][TALLIES] = {{0}}, i = 0;
    for (; i + TABLES <= count; i += TABLES)
        for (int turn = 0; turn < TABLES; turn++)
            tables[turn][byte[i + turn]]++;
    for (; i < count; i++)
        tables[0][byte[i]]++;
    for (int turn = 0; turn < TABLES; turn++)
        for (int place = 0; place < TALLIES; place++)
            table[place] += tables[turn][place];
}

#define TALLIED_BLOCK 16384 /* bytes on the stack; they stay in the L1 cache */

#define DEFINE_TALLY(TYPE)                                                                 \
    WIDEST static void bins_##TYPE(const void *values, int64_t at, int64_t end, uint8_t *bins) \
    {                                                                                      \
        for (int64_t i = at; i < end; i++)                                                 \
            bins[i - at] = bin_##TYPE(values, i);                                          \
    }                                                                                      \
                                                                                           \
    static void tally_##TYPE(const void *values, int64_t count, int64_t *table)            \
    {                                                                                      \
        uint8_t bins[TALLIED_BLOCK];                                                       \
        for (int64_t at = 0; at < count; at += TALLIED_BLOCK) {                            \
            int64_t end = count - at > TALLIED_BLOCK ? at + TALLIED_BLOCK : count;         \
            bins_##TYPE(values, at, end, bins);                                            \
            tally_byte(bins, end - at, table);                                             \
        }                                                                                  \
    }

DEFINE_TALLY(float32)
DEFINE_TALLY(bfloat16)
DEFINE_TALLY(float16)
DEFINE_TALLY(float64)

static void (*const tally_of[KINDS])(const void *, int64_t, int64_t *) = {
    tally_float32, tally_bfloat16, tally_float16, tally_float64, tally_byte};

/* Release the GIL if the work on `bytes` is long enough; else return NULL. */
static PyThreadState *share(int64_t bytes)
{
    return bytes < UNSHARED_BYTES ? NULL : PyEval_SaveThread();
}

static void take_back(PyThreadState *state)
{
    if (state != NULL)
        PyEval_RestoreThread(state);
}

/* Arrays as (address, elements, kind), and memory for the results. */
typedef struct {
    const int64_t *arrays;
    void *found;
    uint64_t *seeds; /* seeds of digests, or NULL */
} Look;

static const void *values_at(const Look *look, int64_t i)
{
    return (const void *)(intptr_t)look->arrays[3 * i];
}

static void norm_one(void *context, int64_t i)
{
    const Look *look = context;
    const int64_t *array = look->arrays + 3 * i;
    ((double *)look->found)[i] = sqrt(squares_of[array[2]](values_at(look, i), array[1]));
}

static void summarize_one(void *context, int64_t i)
{
    const Look *look = context;
    const int64_t *array = look->arrays + 3 * i;
    double *row = (double *)look->found + COLUMNS * i;
    summary_of[array[2]](values_at(look, i), array[1], row, NULL);
}

static void tally_one(void *context, int64_t i)
{
    const Look *look = context;
    const int64_t *array = look->arrays + 3 * i;
    tally_of[array[2]](values_at(look, i), array[1], (int64_t *)look->found + TALLIES * i);
}

/* Compute a row, and replace the seed by the digest, in one read. */
static void summarize_and_digest_one(void *context, int64_t i)
{
    const Look *look = context;
    const int64_t *array = look->arrays + 3 * i;
    const void *values = values_at(look, i);
    double *row = (double *)look->found + COLUMNS * i;
    int64_t size = array[1] * element_bytes[array[2]];
    uint64_t *seed = look->seeds + i;
    Hash hash;
    int is_long = size > SHORT_BYTES;
    if (is_long)
        hash_begin(&hash, *seed);
    summary_of[array[2]](values, array[1], row, is_long ? &hash : NULL);
    *seed = is_long ? hash_end(&hash, values, size) : hash_short(values, size, *seed);
}

enum look { NORM_ALONE, WHOLE_ROW, TALLY };
static void (*const one_of[])(void *, int64_t) = {norm_one, summarize_one, tally_one};
static const int64_t look_width[] = {1, COLUMNS, TALLIES};

/* Call `one` for each of `many` items, which have `bytes` bytes in total.
 * `region`: the address of a `Region`, or 0. */
static void for_each(void (*one)(void *, int64_t), void *context, int64_t many, int64_t bytes,
                     unsigned long long region)
{
    Work work = {one, context, many, 0};
    PyThreadState *state = share(bytes);
    do_all(&work, bytes, (Region)(uintptr_t)region);
    take_back(state);
}

/* Return the total bytes of arrays; -1 if one is empty, or its kind is not below `kinds`. */
static int64_t bytes_of(const int64_t *array, int64_t many, int64_t kinds)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < many; i++, array += 3) {
        if (array[2] < 0 || array[2] >= kinds || array[1] <= 0)
            return -1;
        bytes += array[1] * element_bytes[array[2]];
    }
    return bytes;
}

/* Release the arguments of a function. Return None; raise an error if they did not fit. */
static PyObject *ended(int good, const char *complaint, Py_buffer *one, Py_buffer *other)
{
    PyBuffer_Release(one);
    PyBuffer_Release(other);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, complaint);
    return NULL;
}

static PyObject *reduce(PyObject *args, enum look how)
{
    Py_buffer arrays, rows;
    unsigned long long region = 0;
    if (!PyArg_ParseTuple(args, "y*w*|K", &arrays, &rows, &region))
        return NULL;
    int64_t many = (int64_t)(arrays.len / (3 * sizeof(int64_t)));
    int64_t bytes = bytes_of(arrays.buf, many, how == TALLY ? KINDS : SUMMARIZED);
    int good = bytes >= 0 && rows.len == (Py_ssize_t)(many * look_width[how] * 8);
    Look look = {arrays.buf, rows.buf, NULL};
    if (good)
        for_each(one_of[how], &look, many, bytes, region);
    return ended(good, "rows do not fit arrays of (address, count > 0, kind)", &arrays, &rows);
}

static PyObject *norms(PyObject *module, PyObject *args) { return reduce(args, NORM_ALONE); }
static PyObject *summaries(PyObject *module, PyObject *args) { return reduce(args, WHOLE_ROW); }
static PyObject *tallies(PyObject *module, PyObject *args) { return reduce(args, TALLY); }

/* Here, pieces are (address, size, seed). */
static void digest_one(void *context, int64_t i)
{
    const Look *look = context;
    const int64_t *piece = look->arrays + 3 * i;
    ((uint64_t *)look->found)[i] = hash_whole(values_at(look, i), piece[1], (uint64_t)piece[2]);
}

static PyObject *digests(PyObject *module, PyObject *args)
{
    Py_buffer pieces, found;
    unsigned long long region = 0;
    if (!PyArg_ParseTuple(args, "y*w*|K", &pieces, &found, &region))
        return NULL;
    const int64_t *piece = pieces.buf;
    int64_t many = (int64_t)(pieces.len / (3 * sizeof(int64_t))), bytes = 0;
    int good = found.len == (Py_ssize_t)(many * sizeof(uint64_t));
    for (int64_t i = 0; good && i < many; i++) {
        good = piece[3 * i + 1] >= 0;
        bytes += piece[3 * i + 1];
    }
    Look look = {piece, found.buf, NULL};
    if (good)
        for_each(digest_one, &look, many, bytes, region);
    return ended(good, "digests do not fit pieces of (address, size, seed)", &pieces, &found);
}

static void digest_rows(const uint8_t *row, Py_ssize_t size, uint64_t seed, uint64_t *found,
                        int64_t many)
{
    PyThreadState *state = share(many * size);
    for (int64_t i = 0; i < many; i++, row += size)
        found[i] = hash_whole(row, size, seed);
    take_back(state);
}

static PyObject *row_digests(PyObject *module, PyObject *args)
{
    Py_buffer data, found;
    Py_ssize_t size;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "y*nKw*", &data, &size, &seed, &found))
        return NULL;
    int64_t many = (int64_t)(found.len / sizeof(uint64_t));
    int good = size > 0 && data.len % size == 0 && data.len / size == many;
    if (good)
        digest_rows(data.buf, size, (uint64_t)seed, found.buf, many);
    return ended(good, "digests do not fit rows of size > 0 bytes", &data, &found);
}

static PyObject *digested_summaries(PyObject *module, PyObject *args)
{
    Py_buffer arrays, rows, seeds;
    unsigned long long region = 0;
    if (!PyArg_ParseTuple(args, "y*w*w*|K", &arrays, &rows, &seeds, &region))
        return NULL;
    int64_t many = (int64_t)(arrays.len / (3 * sizeof(int64_t)));
    int64_t bytes = bytes_of(arrays.buf, many, SUMMARIZED);
    int good = bytes >= 0 && rows.len == (Py_ssize_t)(many * COLUMNS * 8) &&
               seeds.len == (Py_ssize_t)(many * sizeof(uint64_t));
    Look look = {arrays.buf, rows.buf, seeds.buf};
    if (good)
        for_each(summarize_and_digest_one, &look, many, bytes, region);
    PyBuffer_Release(&seeds);
    return ended(good, "rows or seeds do not fit arrays of (address, count > 0, kind)", &arrays,
                 &rows);
}

/* Larger copies have left the caches before they are read. */
#define STREAMED_BYTES (1 << 22)

/* Copy without first reading the cache lines of the target, which takes a third of the time. memcpy
 * skips that read only for large single pieces. */
static void stream(char *target, const char *source, size_t size)
{
#ifdef __SSE2__
    size_t head = -(uintptr_t)target % 16;
    head = head < size ? head : size;
    memcpy(target, source, head);
    target += head, source += head, size -= head;
    for (; size >= 64; target += 64, source += 64, size -= 64) {
        __m128i parts[4];
        memcpy(parts, source, sizeof parts);
        for (int i = 0; i < 4; i++)
            _mm_stream_si128((__m128i *)target + i, parts[i]);
    }
#endif
    memcpy(target, source, size);
}

/* Pieces are (address, bytes, offset in the target). */
typedef struct {
    const int64_t *pieces;
    char *target;
    int is_streamed;
} Copies;

static void copy_one(void *context, int64_t i)
{
    const Copies *copies = context;
    const int64_t *piece = copies->pieces + 3 * i;
    const char *source = (const char *)(intptr_t)piece[0];
    if (!copies->is_streamed) {
        memcpy(copies->target + piece[2], source, (size_t)piece[1]);
        return;
    }
    stream(copies->target + piece[2], source, (size_t)piece[1]);
#ifdef __SSE2__
    _mm_sfence();
#endif
}

static void copy_all(const int64_t *pieces, int64_t many, char *target, int64_t bytes,
                     unsigned long long region)
{
    Copies copies = {pieces, target, bytes >= STREAMED_BYTES};
    for_each(copy_one, &copies, many, bytes, region);
}

/* Copy memory; raise an error if the target has a different size. */
static PyObject *copied(const void *source, Py_ssize_t size, const Py_buffer *target)
{
    if (size != target->len) {
        PyErr_SetString(PyExc_ValueError, "the target has a different number of bytes");
        return NULL;
    }
    const int64_t piece[3] = {(int64_t)(intptr_t)source, size, 0};
    copy_all(piece, 1, target->buf, size, 0);
    Py_RETURN_NONE;
}

static PyObject *copy(PyObject *module, PyObject *args)
{
    Py_buffer source, target;
    if (!PyArg_ParseTuple(args, "y*w*", &source, &target))
        return NULL;
    PyObject *done = copied(source.buf, source.len, &target);
    PyBuffer_Release(&source);
    PyBuffer_Release(&target);
    return done;
}

static PyObject *copy_at(PyObject *module, PyObject *args)
{
    unsigned long long address;
    Py_ssize_t size;
    Py_buffer target;
    if (!PyArg_ParseTuple(args, "Knw*", &address, &size, &target))
        return NULL;
    PyObject *done = copied((const void *)(uintptr_t)address, size, &target);
    PyBuffer_Release(&target);
    return done;
}

static PyObject *gather(PyObject *module, PyObject *args)
{
    Py_buffer pieces, target;
    unsigned long long region = 0;
    if (!PyArg_ParseTuple(args, "y*w*|K", &pieces, &target, &region))
        return NULL;
    const int64_t *piece = pieces.buf;
    int64_t many = (int64_t)(pieces.len / (3 * sizeof(int64_t))), bytes = 0;
    int good = 1;
    for (int64_t i = 0; good && i < many; i++) {
        int64_t size = piece[3 * i + 1], begin = piece[3 * i + 2];
        good = size >= 0 && begin >= 0 && size <= target.len && begin <= target.len - size;
        bytes += size;
    }
    if (good)
        copy_all(piece, many, target.buf, bytes, region);
    return ended(good, "pieces of (address, size, begin) do not fit the target", &pieces, &target);
}

/* Write addresses and sizes of arrays in C order into pieces that already have the offsets. */
static PyObject *locate(PyObject *module, PyObject *args)
{
    PyObject *arrays;
    Py_buffer pieces;
    if (!PyArg_ParseTuple(args, "O!w*", &PyList_Type, &arrays, &pieces))
        return NULL;
    Py_ssize_t many = PyList_GET_SIZE(arrays);
    int64_t *piece = pieces.buf;
    int good = pieces.len == many * 3 * (Py_ssize_t)sizeof(int64_t);
    if (!good)
        PyErr_SetString(PyExc_ValueError, "there are not as many pieces as arrays");
    for (Py_ssize_t i = 0; good && i < many; i++, piece += 3) {
        Py_buffer array;
        good = PyObject_GetBuffer(PyList_GET_ITEM(arrays, i), &array, PyBUF_C_CONTIGUOUS) == 0;
        if (good) {
            piece[0] = (int64_t)(intptr_t)array.buf;
            piece[1] = array.len;
            PyBuffer_Release(&array);
        }
    }
    PyBuffer_Release(&pieces);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

/* Clear the error of a failed call, except for a Ctrl-C, which the user must get. */
static void clear_error(void)
{
    if (PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
}

/* Return the result of a method or attribute as a number; -1 if it is not a number. */
static int64_t number(PyObject *found)
{
    long long value = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    if (value == -1 && PyErr_Occurred())
        clear_error();
    return value;
}

/* Return whether `found` is `expected`. Takes over `found`. */
static int is(PyObject *found, PyObject *expected)
{
    Py_XDECREF(found);
    if (found == NULL)
        clear_error();
    return found == expected;
}

static PyObject *is_cpu_name, *layout_name, *dtype_name, *is_contiguous_name, *numel_name,
    *data_ptr_name, *untyped_storage_name, *nbytes_name, *is_neg_name, *is_conj_name, *shape_name;

/* Return the kind of a tensor that can be read in place and is not empty; -1 for other tensors, and
 * if an exception is set. */
static int64_t place(PyObject *tensor, PyObject *types, PyObject *dtypes, PyObject *strided,
                     int64_t *address, int64_t *count)
{
    int64_t kind = -1;
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    if (type != PyTuple_GET_ITEM(types, 0) && type != PyTuple_GET_ITEM(types, 1))
        return -1;
    PyObject *dtype = PyObject_GetAttr(tensor, dtype_name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dtypes); i++)
        if (dtype == PyTuple_GET_ITEM(dtypes, i))
            kind = i;
    Py_XDECREF(dtype);
    if (dtype == NULL)
        clear_error();
    if (kind < 0 || !is(PyObject_GetAttr(tensor, layout_name), strided) ||
        !is(PyObject_GetAttr(tensor, is_cpu_name), Py_True) ||
        !is(PyObject_CallMethodNoArgs(tensor, is_contiguous_name), Py_True) ||
        !is(PyObject_CallMethodNoArgs(tensor, is_neg_name), Py_False) ||
        (kind >= KINDS && !is(PyObject_CallMethodNoArgs(tensor, is_conj_name), Py_False)))
        return -1;
    *count = number(PyObject_CallMethodNoArgs(tensor, numel_name));
    if (*count <= 0)
        return -1;
    *address = number(PyObject_CallMethodNoArgs(tensor, data_ptr_name));
    if (*address == 0 || *address == -1)
        return -1;
    PyObject *storage = PyObject_CallMethodNoArgs(tensor, untyped_storage_name);
    if (storage == NULL) {
        clear_error();
        return -1;
    }
    int64_t there = number(PyObject_CallMethodNoArgs(storage, nbytes_name));
    Py_DECREF(storage);
    int64_t size = kind < KINDS ? *count * element_bytes[kind]
                                : number(PyObject_GetAttr(tensor, nbytes_name));
    /* A sharded tensor releases its memory, but keeps its shape. */
    return size > 0 && there >= size ? kind : -1;
}

static PyObject *places(PyObject *module, PyObject *args)
{
    PyObject *tensors, *types, *dtypes, *strided;
    Py_buffer arrays;
    if (!PyArg_ParseTuple(args, "O!O!O!Ow*", &PyList_Type, &tensors, &PyTuple_Type, &types,
                          &PyTuple_Type, &dtypes, &strided, &arrays))
        return NULL;
    int64_t *array = arrays.buf;
    Py_ssize_t many = PyList_GET_SIZE(tensors);
    int good = arrays.len == (Py_ssize_t)(many * 3 * sizeof(int64_t)) &&
               PyTuple_GET_SIZE(types) == 2;
    /* Another thread may shorten the list meanwhile. */
    for (Py_ssize_t i = 0; good && i < many; i++, array += 3) {
        array[0] = array[1] = 0;
        array[2] = -1;
        if (i >= PyList_GET_SIZE(tensors))
            continue;
        PyObject *tensor = Py_NewRef(PyList_GET_ITEM(tensors, i));
        array[2] = place(tensor, types, dtypes, strided, &array[0], &array[1]);
        Py_DECREF(tensor);
        if (PyErr_Occurred()) {
            PyBuffer_Release(&arrays);
            return NULL;
        }
    }
    PyBuffer_Release(&arrays);
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "arrays do not fit the tensors");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *row(PyObject *module, PyObject *args)
{
    PyObject *types, *dtypes, *strided, *tensor;
    if (!PyArg_ParseTuple(args, "O!O!OO", &PyTuple_Type, &types, &PyTuple_Type, &dtypes, &strided,
                          &tensor))
        return NULL;
    if (PyTuple_GET_SIZE(types) != 2) {
        PyErr_SetString(PyExc_ValueError, "expected two types");
        return NULL;
    }
    int64_t array[3] = {0, 0, -1};
    array[2] = place(tensor, types, dtypes, strided, &array[0], &array[1]);
    if (PyErr_Occurred())
        return NULL;
    if (array[2] < 0 || array[2] >= SUMMARIZED)
        Py_RETURN_NONE;
    double found[1 + COLUMNS] = {(double)array[1]};
    Look look = {array, found + 1, NULL};
    for_each(summarize_one, &look, 1, array[1] * element_bytes[array[2]], 0);
    return PyBytes_FromStringAndSize((const char *)found, sizeof found);
}

/* Set `found` to `seed_of(dtype, shape)` of a tensor; return whether it returned a seed. */
static int seed(PyObject *tensor, PyObject *seed_of, uint64_t *found)
{
    PyObject *dtype = PyObject_GetAttr(tensor, dtype_name);
    PyObject *shape = dtype == NULL ? NULL : PyObject_GetAttr(tensor, shape_name);
    PyObject *number =
        shape == NULL ? NULL : PyObject_CallFunctionObjArgs(seed_of, dtype, shape, NULL);
    if (number != NULL)
        *found = PyLong_AsUnsignedLongLong(number);
    Py_XDECREF(number);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    if (number != NULL && !PyErr_Occurred())
        return 1;
    clear_error();
    return 0;
}

static PyObject *seeds(PyObject *module, PyObject *args)
{
    PyObject *tensors, *seed_of;
    Py_buffer arrays, found;
    if (!PyArg_ParseTuple(args, "O!Ow*w*", &PyTuple_Type, &tensors, &seed_of, &arrays, &found))
        return NULL;
    Py_ssize_t many = PyTuple_GET_SIZE(tensors);
    int64_t *array = arrays.buf;
    uint64_t *seeds = found.buf;
    int good = found.len == (Py_ssize_t)(many * sizeof(uint64_t)) && arrays.len == 3 * found.len;
    if (!good)
        PyErr_SetString(PyExc_ValueError, "arrays or seeds do not fit the tensors");
    for (Py_ssize_t i = 0; good && i < many; i++, array += 3) {
        if (array[2] >= 0 && !seed(PyTuple_GET_ITEM(tensors, i), seed_of, seeds + i))
            array[2] = -1;
        good = !PyErr_Occurred();
    }
    PyBuffer_Release(&arrays);
    PyBuffer_Release(&found);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"places", places, METH_VARARGS,
     "places(tensors, types, dtypes, strided, arrays): write the addresses of tensors.\n\n"
     "types: the two types that are read. dtypes: data types of the kinds, in order, then data\n"
     "types that are only digested. arrays: int64, (address, count, kind) per tensor; the kind is\n"
     "-1 if the tensor cannot be read."},
    {"norms", norms, METH_VARARGS,
     "norms(arrays, rows, region=0): write the Euclidean norm of each array.\n\n"
     "arrays: int64, (address, count, kind) per array. rows: float64, one per array. region:\n"
     "address of GOMP_parallel in a framework's runtime, whose threads share the arrays; 0: this\n"
     "thread reads all of them. It has the same meaning in all functions of this module."},
    {"summaries", summaries, METH_VARARGS,
     "summaries(arrays, rows, region=0): write zero, min, max, mean, deviation_l2, abs_sum and l2.\n\n"
     "arrays: as for norms. rows: float64, seven per array. l2 is not finite if an element is\n"
     "not finite; deviation_l2 is NaN if it would be inaccurate."},
    {"row", row, METH_VARARGS,
     "row(types, dtypes, strided, tensor): return the count and the columns of `summaries`.\n\n"
     "They are float64 values, as bytes; None if the tensor cannot be read in place. The other\n"
     "arguments are as for `places`."},
    {"seeds", seeds, METH_VARARGS,
     "seeds(tensors, seed_of, arrays, found): write seed_of(dtype, shape) of each tensor.\n\n"
     "tensors: a tuple. arrays: written by `places`; the kind of a tensor without a seed becomes\n"
     "-1. found: uint64, one per tensor."},
    {"digests", digests, METH_VARARGS,
     "digests(pieces, found, region=0): write the xxh3_64 of bytes, uint64, one per piece.\n\n"
     "pieces: int64, (address, bytes, seed) per piece."},
    {"row_digests", row_digests, METH_VARARGS,
     "row_digests(data, size, seed, found): write the xxh3_64 of each piece of `size` bytes.\n\n"
     "data: contiguous bytes. found: uint64, one per piece."},
    {"digested_summaries", digested_summaries, METH_VARARGS,
     "digested_summaries(arrays, rows, seeds, region=0): like summaries, and write digests.\n\n"
     "seeds: uint64, one per array, replaced by the digests. Each array is read once."},
    {"tallies", tallies, METH_VARARGS,
     "tallies(arrays, tables, region=0): add the number of elements in each bin to tables.\n\n"
     "arrays: as for norms, but bytes are also allowed. tables: int64, 256 per array. For bytes,\n"
     "a bin per value; else 64 powers of two for negative values, 64 for positive values, and a\n"
     "bin for zeros, NaN and infinities."},
    {"copy", copy, METH_VARARGS,
     "copy(source, target): copy an array in C order into a buffer of the same size."},
    {"copy_at", copy_at, METH_VARARGS,
     "copy_at(address, size, target): copy memory at an address into a buffer of that size."},
    {"gather", gather, METH_VARARGS,
     "gather(pieces, target, region=0): copy pieces of memory into a buffer.\n\n"
     "pieces: int64, (address, bytes, offset in the target) per piece."},
    {"locate", locate, METH_VARARGS,
     "locate(arrays, pieces): write address and bytes of each array into pieces for gather."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_arrays", "Reductions and copies of arrays in memory.", 0, methods,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__arrays(void)
{
    struct { PyObject **name; const char *text; } names[] = {
        {&is_cpu_name, "is_cpu"}, {&layout_name, "layout"}, {&dtype_name, "dtype"},
        {&is_contiguous_name, "is_contiguous"}, {&numel_name, "numel"},
        {&data_ptr_name, "data_ptr"}, {&untyped_storage_name, "untyped_storage"},
        {&nbytes_name, "nbytes"}, {&is_neg_name, "is_neg"},
        {&is_conj_name, "is_conj"}, {&shape_name, "shape"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL)
            return NULL;
    return PyModule_Create(&definition);
}
