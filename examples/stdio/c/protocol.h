/* The stdio protocol for drivers in C: requests, answers, and the two files of bytes. Copy it as it is. */
#ifndef PROTOCOL_H
#define PROTOCOL_H
#include <stddef.h>

typedef unsigned long long u64;

/* Answer requests by `run` until `close` or the end of the input; return the exit status. `run` answers and returns
   NULL, or returns the word of the seam that it refuses with; then what it answered is dropped. */
int serve(const char *(*run)(const char *op));

/* Of the present request: a number, a text (cut to its room), whether a key begins so, whether an option is unknown. */
u64 number(const char *name, u64 otherwise);
const char *text(const char *name, char *room, size_t bytes);
int has(const char *start);
int has_other_option(const char *const *known, size_t count);

/* Add to the answer, with ' for the quotes of JSON; return NULL. */
const char *answer(const char *format, ...);
/* What `begin`, `extend`, `restore` and imports answer: the prompt is for `start` to `end`, forwarded in chunks. */
const char *answer_begun(u64 start, u64 end, u64 chunk, u64 cached, u64 restored_bytes);
/* One part in a list: rows where it has a width, else so many elements. */
void answer_part(const char *name, const char *family, int layer, const char *type, u64 rows, u64 width, u64 at,
                 u64 bytes);
/* Bytes, and where they lie: all that `logits` and `export_image` answer. */
const char *answer_bytes(const void *data, u64 bytes);

/* `meanwhile`: a call goes on, and in the middle of it its session is asked for something else. The call is run by
   `run_asked`, and says `in_between` between two tokens; `is_busy` meanwhile, the session refuses with "state". */
struct session;
const char *run_asked(struct session *s, const char *(*call)(struct session *));
void in_between(struct session *s, const char *(*run)(const char *op, struct session *));
int is_busy(const struct session *s);

/* The files that `hello` names; bytes into one, and from the start of the other (to be freed). */
void open_files(void);
void put(const void *data, u64 at, u64 bytes);
void *take(u64 bytes);
/* Zeroed memory, to be freed; the driver ends where there is none. */
void *make(u64 bytes);
#endif
