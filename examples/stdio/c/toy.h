/* A toy engine. Each token adds one row to layer0.k and layer0.v and folds it into four words, layer1.recurrent; an
   earlier row is mixed in, as attention does it. Your engine comes in the place of toy.c. */
#ifndef TOY_H
#define TOY_H
#include "protocol.h"
#include <stdint.h>

enum { TOY_VOCAB = 16, TOY_CHANNELS = 2 };
struct toy {
    u64 position, pending;             /* tokens; whether logits are pending */
    uint32_t *k, *v;                   /* rows of two f32 each, with room for toy_most of them */
    uint32_t recurrent[4], logits[TOY_VOCAB];
};
extern u64 toy_most;

void toy_make(struct toy *s);
void toy_free(struct toy *s);
void toy_clear(struct toy *s);
u64 toy_copy(struct toy *to, const struct toy *from);  /* bytes of rows and words that it copied */

void toy_forward(struct toy *s, uint32_t token);
void toy_finish(struct toy *s);        /* logits, after the last token of a call */
uint32_t toy_best(const struct toy *s);

u64 toy_row_bytes(const struct toy *s);    /* of K; V has as many */
const char *toy_flip(struct toy *s, const char *part, u64 byte, u64 mask);  /* a refusal, or NULL */

/* Images: magic, position, pending, checksum; then the fixed part, then the rows. */
u64 toy_image_bytes(const struct toy *s);
void toy_export(const struct toy *s, unsigned char *image);
/* A refusal, with nothing written; or NULL, with the bytes of rows and words that were copied. */
const char *toy_import(struct toy *s, unsigned char *image, u64 bytes, u64 *copied);
const char *toy_import_archive(struct toy *s, unsigned char *archive, u64 bytes, u64 *copied);
#endif
