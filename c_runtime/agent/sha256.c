#include "sha256.h"

#include <string.h>

#include "sha256_fast.h"

static const uint32_t init[8] = {
    0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u,
};

/* Cube roots of the first 64 primes. */
const uint32_t ag_sha256_k[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32u - n);
}

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void plain(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    for (; blocks != 0; --blocks, data += AG_SHA256_BLOCK) {
        uint32_t w[64], v[8];
        for (unsigned i = 0; i < 16; ++i) {
            w[i] = big(data + 4u * i);
        }
        for (unsigned i = 16; i < 64; ++i) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
        }
        memcpy(v, state, sizeof v);
#pragma GCC unroll 8
        for (unsigned i = 0; i < 64; ++i) { /* instead of the words, their names move on */
            uint32_t a = v[(0u - i) & 7u], b = v[(1u - i) & 7u], c = v[(2u - i) & 7u], e = v[(4u - i) & 7u];
            uint32_t f = v[(5u - i) & 7u], g = v[(6u - i) & 7u], *d = &v[(3u - i) & 7u], *h = &v[(7u - i) & 7u];
            uint32_t x = *h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + ag_sha256_k[i] + w[i];
            *d += x;
            *h = x + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        }
        for (unsigned i = 0; i < 8; ++i) {
            state[i] += v[i];
        }
    }
}

static void blocks_of(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    if (!ag_sha256_fast(state, data, blocks)) {
        plain(state, data, blocks);
    }
}

void ag_sha256_init(ag_sha256_t *h)
{
    memcpy(h->state, init, sizeof init);
    h->bytes = 0;
}

void ag_sha256_update(ag_sha256_t *h, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t held = (size_t)(h->bytes % AG_SHA256_BLOCK);
    h->bytes += n;
    if (n == 0) {
        return; /* of no bytes there may be no address */
    }
    if (held != 0) {
        size_t take = AG_SHA256_BLOCK - held < n ? AG_SHA256_BLOCK - held : n;
        memcpy(h->block + held, p, take);
        p += take;
        n -= take;
        if (held + take < AG_SHA256_BLOCK) {
            return;
        }
        blocks_of(h->state, h->block, 1);
    }
    if (n >= AG_SHA256_BLOCK) {
        blocks_of(h->state, p, n / AG_SHA256_BLOCK);
        p += n / AG_SHA256_BLOCK * AG_SHA256_BLOCK;
        n %= AG_SHA256_BLOCK;
    }
    if (n != 0) {
        memcpy(h->block, p, n);
    }
}

void ag_sha256_final(ag_sha256_t *h, uint8_t out[AG_SHA256_BYTES])
{
    static const uint8_t pad[AG_SHA256_BLOCK] = {0x80};
    uint64_t bits = h->bytes * 8u;
    uint8_t length[8];
    for (unsigned i = 0; i < 8; ++i) {
        length[i] = (uint8_t)(bits >> (56u - 8u * i));
    }
    ag_sha256_update(h, pad, 1u + (size_t)((119u - h->bytes % AG_SHA256_BLOCK) % AG_SHA256_BLOCK));
    ag_sha256_update(h, length, sizeof length);
    for (unsigned i = 0; i < AG_SHA256_BYTES; ++i) {
        out[i] = (uint8_t)(h->state[i / 4u] >> (24u - 8u * (i % 4u)));
    }
}

void ag_hmac_init(ag_hmac_t *h, const void *key, size_t n)
{
    uint8_t inner[AG_SHA256_BLOCK] = {0}, outer[AG_SHA256_BLOCK];
    if (n > sizeof inner) {
        ag_sha256_t hash;
        ag_sha256_init(&hash);
        ag_sha256_update(&hash, key, n);
        ag_sha256_final(&hash, inner);
    } else {
        memcpy(inner, key, n);
    }
    for (unsigned i = 0; i < sizeof inner; ++i) {
        outer[i] = inner[i] ^ 0x5cu;
        inner[i] ^= 0x36u;
    }
    ag_sha256_init(&h->inner);
    ag_sha256_update(&h->inner, inner, sizeof inner);
    ag_sha256_init(&h->outer);
    ag_sha256_update(&h->outer, outer, sizeof outer);
}

void ag_hmac_update(ag_hmac_t *h, const void *data, size_t n)
{
    ag_sha256_update(&h->inner, data, n);
}

void ag_hmac_final(ag_hmac_t *h, uint8_t out[AG_SHA256_BYTES])
{
    ag_sha256_final(&h->inner, out);
    ag_sha256_update(&h->outer, out, AG_SHA256_BYTES);
    ag_sha256_final(&h->outer, out);
}

bool ag_same(const uint8_t *a, const uint8_t *b, size_t n)
{
    volatile uint8_t other = 0;
    for (size_t i = 0; i < n; ++i) {
        other = (uint8_t)(other | (a[i] ^ b[i]));
    }
    return other == 0;
}

uint32_t ag_crc32(uint32_t crc, const void *data, size_t n)
{
    static uint32_t table[8][256]; /* [k]: of a byte that k zero bytes follow */
    const uint8_t *p = data;
    if (table[0][1] == 0) {
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (unsigned bit = 0; bit < 8; ++bit) {
                c = c >> 1 ^ (0xedb88320u & (0u - (c & 1u)));
            }
            table[0][i] = c;
        }
        for (unsigned k = 1; k < 8; ++k) {
            for (unsigned i = 0; i < 256; ++i) {
                table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255u];
            }
        }
    }
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]);
        crc = table[7][low & 255u] ^ table[6][low >> 8 & 255u] ^ table[5][low >> 16 & 255u] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n != 0; --n, ++p) {
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255u];
    }
    return ~crc;
}
