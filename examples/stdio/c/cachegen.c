#include "cachegen.h"
#include <stdint.h>
#include <string.h>

enum { HEAD = 16, RECORD = 52, SEGMENT = 16, ELEMENT = 4, F32 = 3 };
struct page { unsigned char *rows; u64 bytes, layer_bytes, channels, done; };

static u64 little(const unsigned char *data, int bytes) {
    u64 found = 0;
    for (int i = 0; i < bytes; i++) found |= (u64)data[i] << 8 * i;
    return found;
}

static float half(float x) {  /* to the nearest f16, ties to even: adding this much leaves as many bits as f16 has */
    uint32_t bits, big_bits;
    memcpy(&bits, &x, 4);
    int exponent = (int)(bits >> 23 & 255) - 127;
    big_bits = (uint32_t)((exponent < -14 ? -14 : exponent) - 10 + 23 + 127) << 23 | 0x400000;
    float big;
    memcpy(&big, &big_bits, 4);
    volatile float sum = x + big;
    return sum - big;
}

/* Decode one record into the page; set the bytes that it takes. */
static const char *record(const unsigned char *at, u64 left, struct page *page, u64 *taken) {
    if (left < RECORD + SEGMENT) return "format";
    u64 decoded = little(at + 12, 8), count = little(at + 20, 8), length = little(at + 44, 8);
    const unsigned char *segment = at + RECORD, *maxima = segment + SEGMENT, *packed;
    int bins = segment[4], bits = segment[5], centre = bins / 2 - 1;
    if (length > left - RECORD || memcmp(segment, "LCG2", 4)) return "format";
    if (!((bins == 16 && bits == 4) || (bins == 32 && bits == 5))) return "format";
    u64 tokens = little(segment + 6, 2), channels = little(segment + 8, 4), size = little(segment + 12, 4);
    if (!tokens || tokens > 256 || !channels || channels > 1u << 24) return "format";
    if (size != (tokens * channels * (u64)bits + 7) / 8 || length != SEGMENT + 4 * tokens + size) return "format";
    if (at[2] || at[3] || little(at + 28, 8) || little(at + 36, 8)) return "format";
    if (at[0] != F32 || at[1] != ELEMENT || channels != page->channels) return "layout";
    u64 room = page->layer_bytes ? page->layer_bytes - page->done % page->layer_bytes : 0;  /* rows of one layer */
    if (little(at + 4, 8) != page->done || count != tokens || decoded != tokens * channels * ELEMENT) return "layout";
    if (decoded > room || decoded > page->bytes - page->done) return "layout";
    packed = maxima + 4 * tokens;
    for (u64 i = 0; i < tokens * channels; i++) {
        u64 first = i * (u64)bits / 8;
        uint32_t word = packed[first] | (first + 1 < size ? (uint32_t)packed[first + 1] << 8 : 0);
        int symbol = (int)(word >> i * (u64)bits % 8) & ((1 << bits) - 1);
        uint32_t most_bits = (uint32_t)little(maxima + i / channels * 4, 4);
        float value;
        memcpy(&value, &most_bits, 4);
        if (most_bits >= 0x7f800000 || symbol > bins - 2) return "format";
        value = half((float)(symbol - centre) / (float)centre * value);
        if (!(value > -65520 && value < 65520)) return "format";
        memcpy(page->rows + page->done + i * ELEMENT, &value, ELEMENT);
    }
    page->done += decoded;
    *taken = RECORD + length;
    return NULL;
}

const char *cachegen_decode(const unsigned char *archive, u64 bytes, u64 layers, u64 tokens, u64 channels,
                            unsigned char *rows) {
    u64 layer = tokens * channels * ELEMENT, at = HEAD, taken;
    struct page page = {.rows = rows, .bytes = 2 * layers * layer, .layer_bytes = layer, .channels = channels};
    if (bytes < HEAD || memcmp(archive, "CKG1", 4)) return "format";
    if (little(archive + 4, 8) != page.bytes) return "layout";
    for (u64 left = little(archive + 12, 4); left; left--, at += taken) {
        const char *word = record(archive + at, bytes - at, &page, &taken);
        if (word) return word;
    }
    if (at != bytes) return "format";
    return page.done == page.bytes ? NULL : "layout";
}
