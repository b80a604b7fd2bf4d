/* XXH3 with 64 bits and a seed, according to its specification
 * (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), for data that is read in blocks.
 *
 * So a block can be used for other computations while it is in the L1 cache. The loops are written
 * in lanes, as in `_arrays.c`, which defines WIDEST.
 */

#include <stdint.h>
#include <string.h>

#define SECRET_BYTES 192
#define HASH_LANES 8
#define STRIPE (8 * HASH_LANES)
#define STRIPES 16                 /* per block; each begins 8 bytes later in the secret */
#define HASHED_BLOCK (STRIPES * STRIPE)
#define LAST_SECRET (SECRET_BYTES - STRIPE) /* last offset of a stripe in the secret */
#define SHORT_BYTES 240            /* up to this size, the specification has other formulas */

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87u
#define PRIME64_2 0xC2B2AE3D27D4EB4Fu
#define PRIME64_3 0x165667B19E3779F9u
#define PRIME64_4 0x85EBCA77C2B2AE63u
#define PRIME64_5 0x27D4EB2F165667C5u
#define PRIME_MX1 0x165667919E3779F9u
#define PRIME_MX2 0x9FB21C651E98DF25u

/* Constants of the specification. */
static const uint8_t default_secret[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint64_t read64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint32_t read32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint32_t swap32(uint32_t x)
{
    return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
}

static inline uint64_t swap64(uint64_t x)
{
    return (uint64_t)swap32((uint32_t)x) << 32 | swap32((uint32_t)(x >> 32));
}

static inline uint64_t turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/* XOR of both halves of the 128-bit product. */
static inline uint64_t folded_product(uint64_t a, uint64_t b)
{
    uint64_t low_low = (a & 0xffffffff) * (b & 0xffffffff), low_high = (a & 0xffffffff) * (b >> 32);
    uint64_t high_low = (a >> 32) * (b & 0xffffffff), high_high = (a >> 32) * (b >> 32);
    uint64_t middle = (low_low >> 32) + (high_low & 0xffffffff) + low_high;
    uint64_t high = (high_low >> 32) + (middle >> 32) + high_high;
    return (middle << 32 | (low_low & 0xffffffff)) ^ high;
}

static inline uint64_t avalanche(uint64_t x)
{
    x = (x ^ x >> 37) * PRIME_MX1;
    return x ^ x >> 32;
}

static uint64_t hash_to_16(const uint8_t *data, int64_t size, uint64_t seed)
{
    const uint8_t *secret = default_secret;
    uint64_t length = (uint64_t)size;
    if (size > 8) {
        uint64_t low = read64(data) ^ ((read64(secret + 24) ^ read64(secret + 32)) + seed);
        uint64_t high = read64(data + size - 8) ^ ((read64(secret + 40) ^ read64(secret + 48)) - seed);
        return avalanche(length + swap64(low) + high + folded_product(low, high));
    }
    if (size >= 4) {
        seed ^= (uint64_t)swap32((uint32_t)seed) << 32;
        uint64_t both = read32(data + size - 4) + ((uint64_t)read32(data) << 32);
        uint64_t x = both ^ ((read64(secret + 8) ^ read64(secret + 16)) - seed);
        x = (x ^ turned(x, 49) ^ turned(x, 24)) * PRIME_MX2;
        x = (x ^ ((x >> 35) + length)) * PRIME_MX2;
        return x ^ x >> 28;
    }
    uint64_t x = seed ^ read64(secret + 56) ^ read64(secret + 64);
    if (size > 0) {
        uint32_t all = (uint32_t)data[0] << 16 | (uint32_t)data[size >> 1] << 24 |
                       (uint32_t)data[size - 1] | (uint32_t)size << 8;
        x = all ^ ((uint64_t)(read32(secret) ^ read32(secret + 4)) + seed);
    }
    x = (x ^ x >> 33) * PRIME64_2;
    x = (x ^ x >> 29) * PRIME64_3;
    return x ^ x >> 32;
}

static inline uint64_t mixed_16(const uint8_t *data, const uint8_t *secret, uint64_t seed)
{
    return folded_product(read64(data) ^ (read64(secret) + seed),
                          read64(data + 8) ^ (read64(secret + 8) - seed));
}

static uint64_t hash_short(const uint8_t *data, int64_t size, uint64_t seed)
{
    const uint8_t *secret = default_secret;
    if (size <= 16)
        return hash_to_16(data, size, seed);
    uint64_t sum = (uint64_t)size * PRIME64_1;
    if (size <= 128) { /* from both ends to the middle */
        for (int64_t i = 0; i <= (size - 1) / 32; i++)
            sum += mixed_16(data + 16 * i, secret + 32 * i, seed) +
                   mixed_16(data + size - 16 * (i + 1), secret + 32 * i + 16, seed);
        return avalanche(sum);
    }
    for (int64_t i = 0; i < 8; i++)
        sum += mixed_16(data + 16 * i, secret + 16 * i, seed);
    sum = avalanche(sum);
    for (int64_t i = 8; i < size / 16; i++)
        sum += mixed_16(data + 16 * i, secret + 16 * (i - 8) + 3, seed);
    return avalanche(sum + mixed_16(data + size - 16, secret + 136 - 17, seed));
}

/* State of the hash of data that is longer than SHORT_BYTES. */
typedef struct {
    uint64_t lanes[HASH_LANES];
    uint8_t secret[SECRET_BYTES];
    int64_t blocks; /* number of processed blocks */
} Hash;

static void hash_begin(Hash *hash, uint64_t seed)
{
    static const uint64_t first[HASH_LANES] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                                               PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    memcpy(hash->lanes, first, sizeof first);
    for (int i = 0; i < SECRET_BYTES; i += 8) {
        uint64_t part = read64(default_secret + i) + (i % 16 ? 0 - seed : seed);
        for (int byte = 0; byte < 8; byte++)
            hash->secret[i + byte] = (uint8_t)(part >> 8 * byte);
    }
    hash->blocks = 0;
}

/* All lanes as one vector. gcc 12 compiles loops over lanes to code that is four times slower. */
#ifdef __GNUC__
typedef uint64_t Lanes __attribute__((vector_size(STRIPE)));
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address)
#endif

/* Distance of prefetches, in bytes. While a block is read a second time, the processor prefetches
 * nothing by itself. On a Zen 5, this is 1.5 times as fast as without prefetches. */
#define AHEAD 8192
#define AHEAD_OF_HASH 12288

/* Add stripes to the lanes. A value is added to its own lane as a product, and to the neighboring
 * lane unchanged; the unchanged values are added at the end, so that no lane waits for another. */
static inline void add_stripes(uint64_t *lanes, const uint8_t *data, int64_t many,
                               const uint8_t *secret)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    Lanes products, sums = {0}, values, keyed;
    memcpy(&products, lanes, sizeof products);
    for (int64_t stripe = 0; stripe < many; stripe++) {
        FETCH(data + STRIPE * stripe + AHEAD_OF_HASH);
        memcpy(&values, data + STRIPE * stripe, sizeof values);
        memcpy(&keyed, secret + 8 * stripe, sizeof keyed);
        keyed ^= values;
        sums += values;
        products += (keyed & 0xffffffff) * (keyed >> 32);
    }
#else
    uint64_t products[HASH_LANES], sums[HASH_LANES] = {0};
    memcpy(products, lanes, sizeof products);
    for (int64_t stripe = 0; stripe < many; stripe++)
        for (int lane = 0; lane < HASH_LANES; lane++) {
            uint64_t value = read64(data + STRIPE * stripe + 8 * lane);
            uint64_t keyed = value ^ read64(secret + 8 * stripe + 8 * lane);
            sums[lane] += value;
            products[lane] += (keyed & 0xffffffff) * (keyed >> 32);
        }
#endif
    for (int lane = 0; lane < HASH_LANES; lane++)
        lanes[lane] = products[lane] + sums[lane ^ 1];
}

/* Process the blocks of the data up to `place`; the last bytes are processed by `hash_end`. */
WIDEST static void hash_up_to(Hash *hash, const uint8_t *data, int64_t place, int64_t size)
{
    int64_t end = (place < size ? place : size - 1) / HASHED_BLOCK;
    for (; hash->blocks < end; hash->blocks++) {
        add_stripes(hash->lanes, data + HASHED_BLOCK * hash->blocks, STRIPES, hash->secret);
        for (int lane = 0; lane < HASH_LANES; lane++) {
            uint64_t x = hash->lanes[lane];
            x = x ^ x >> 47 ^ read64(hash->secret + LAST_SECRET + 8 * lane);
            hash->lanes[lane] = x * PRIME32_1;
        }
    }
}

static uint64_t hash_end(Hash *hash, const uint8_t *data, int64_t size)
{
    hash_up_to(hash, data, size, size);
    int64_t begin = HASHED_BLOCK * hash->blocks;
    add_stripes(hash->lanes, data + begin, (size - 1 - begin) / STRIPE, hash->secret);
    add_stripes(hash->lanes, data + size - STRIPE, 1, hash->secret + LAST_SECRET - 7);
    uint64_t sum = (uint64_t)size * PRIME64_1;
    for (int lane = 0; lane < HASH_LANES; lane += 2)
        sum += folded_product(hash->lanes[lane] ^ read64(hash->secret + 11 + 8 * lane),
                              hash->lanes[lane + 1] ^ read64(hash->secret + 19 + 8 * lane));
    return avalanche(sum);
}

static uint64_t hash_whole(const uint8_t *data, int64_t size, uint64_t seed)
{
    if (size <= SHORT_BYTES)
        return hash_short(data, size, seed);
    Hash hash;
    hash_begin(&hash, seed);
    return hash_end(&hash, data, size);
}
