#include "toy.h"
#include "cachegen.h"
#include <stdlib.h>
#include <string.h>

enum { HEAD = 32, FIXED = 16 + 4 * TOY_VOCAB };
u64 toy_most = 4096;

void toy_make(struct toy *s) {
    s->k = make(toy_most * 16);
    s->v = s->k + toy_most * TOY_CHANNELS;
}

void toy_free(struct toy *s) { free(s->k); }

void toy_clear(struct toy *s) { *s = (struct toy){.k = s->k, .v = s->v}; }

u64 toy_copy(struct toy *to, const struct toy *from) {
    uint32_t *k = to->k, *v = to->v;
    *to = *from;
    to->k = k;
    to->v = v;
    memcpy(k, from->k, toy_row_bytes(from));
    memcpy(v, from->v, toy_row_bytes(from));
    return 2 * toy_row_bytes(from) + sizeof to->recurrent;
}

static uint32_t as_f32(uint32_t word) {  /* the bits of a small number that a float holds exactly */
    float number = (float)(word >> 16) / 256 - 128;
    memcpy(&word, &number, 4);
    return word;
}

void toy_forward(struct toy *s, uint32_t token) {
    uint32_t folded[4], seen = s->position ? s->k[s->recurrent[0] % s->position * TOY_CHANNELS] : 0;
    for (uint32_t i = 0; i < 4; i++) folded[i] = s->recurrent[i] * 1664525u + seen + token + 1013904223u + i;
    memcpy(s->recurrent, folded, sizeof folded);
    uint32_t *k = s->k + s->position * TOY_CHANNELS, *v = s->v + s->position * TOY_CHANNELS;
    k[0] = as_f32(folded[0] ^ token);
    k[1] = as_f32(folded[1]);
    v[0] = as_f32(folded[2]);
    v[1] = as_f32(folded[3] + token);
    s->position++;
    s->pending = 0;
}

void toy_finish(struct toy *s) {
    for (uint32_t i = 0; i < TOY_VOCAB; i++) s->logits[i] = (uint32_t)((u64)s->recurrent[i % 4] * (2 * i + 1) >> 8);
    s->pending = 1;
}

uint32_t toy_best(const struct toy *s) {
    uint32_t best = 0;
    for (uint32_t token = 1; token < TOY_VOCAB; token++) if (s->logits[token] > s->logits[best]) best = token;
    return best;
}

u64 toy_row_bytes(const struct toy *s) { return s->position * 4 * TOY_CHANNELS; }

const char *toy_flip(struct toy *s, const char *part, u64 byte, u64 mask) {
    int k = !strcmp(part, "layer0.k"), rows = k || !strcmp(part, "layer0.v"), fixed = !strcmp(part, "layer1.recurrent");
    u64 held = rows ? toy_row_bytes(s) : fixed ? sizeof s->recurrent : 0;
    if (byte >= held) return "missing";
    ((unsigned char *)(k ? s->k : rows ? s->v : s->recurrent))[byte] ^= (unsigned char)mask;
    return NULL;
}

static u64 checksum(const unsigned char *data, u64 bytes) {
    u64 sum = 14695981039346656037u;
    for (u64 i = 0; i < bytes; i++) sum = (sum ^ data[i]) * 1099511628211u;
    return sum;
}

u64 toy_image_bytes(const struct toy *s) { return HEAD + FIXED + 2 * toy_row_bytes(s); }

void toy_export(const struct toy *s, unsigned char *image) {
    u64 rows = toy_row_bytes(s), zero = 0, sum;
    memcpy(image, "TOYIMG01", 8);
    memcpy(image + 8, &s->position, 8);
    memcpy(image + 16, &s->pending, 8);
    memcpy(image + 24, &zero, 8);
    memcpy(image + HEAD, s->recurrent, 16);
    memcpy(image + HEAD + 16, s->logits, 4 * TOY_VOCAB);
    memcpy(image + HEAD + FIXED, s->k, rows);
    memcpy(image + HEAD + FIXED + rows, s->v, rows);
    sum = checksum(image, toy_image_bytes(s));  /* of an image whose checksum is zero */
    memcpy(image + 24, &sum, 8);
}

const char *toy_import(struct toy *s, unsigned char *image, u64 bytes, u64 *copied) {
    struct toy told = {0};
    u64 sum, zero = 0;
    if (bytes < HEAD + FIXED || memcmp(image, "TOYIMG01", 8)) return "format";
    memcpy(&told.position, image + 8, 8);
    memcpy(&sum, image + 24, 8);
    memcpy(image + 24, &zero, 8);
    if (told.position > toy_most) return "capacity";
    if (bytes != toy_image_bytes(&told) || checksum(image, bytes) != sum) return "format";
    s->position = told.position;  /* all is checked: only now is anything written */
    memcpy(&s->pending, image + 16, 8);
    memcpy(s->recurrent, image + HEAD, 16);
    memcpy(s->logits, image + HEAD + 16, 4 * TOY_VOCAB);
    memcpy(s->k, image + HEAD + FIXED, toy_row_bytes(s));
    memcpy(s->v, image + HEAD + FIXED + toy_row_bytes(s), toy_row_bytes(s));
    *copied = 2 * toy_row_bytes(s) + sizeof s->recurrent;
    return NULL;
}

const char *toy_import_archive(struct toy *s, unsigned char *archive, u64 bytes, u64 *copied) {
    u64 rows = toy_row_bytes(s);
    unsigned char *page = make(2 * rows);  /* beside the rows: nothing of a bad archive is left */
    const char *word = cachegen_decode(archive, bytes, 1, s->position, TOY_CHANNELS, page);
    if (!word) {
        memcpy(s->k, page, rows);
        memcpy(s->v, page + rows, rows);
        *copied = 2 * rows;
    }
    free(page);
    return word;
}
