/* Archives of coded K/V rows, codec lmcache-cachegen version 2: docs/formats/archive.md. Copy it as it is. */
#ifndef CACHEGEN_H
#define CACHEGEN_H
#include "protocol.h"

/* Decode an archive into a page of f32 rows: `layers` layers of K, then of V, each `tokens` rows of `channels`.
   Return a refusal (`format`, `layout`), or NULL. Decode beside your rows, and copy once all has come. */
const char *cachegen_decode(const unsigned char *archive, u64 bytes, u64 layers, u64 tokens, u64 channels,
                            unsigned char *page);
#endif
