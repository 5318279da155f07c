/* A driver of the stdio protocol in C, whole and small: docs/formats/stdio.md.

   The engine is a toy: each token adds one row to layer0.k and layer0.v and folds it into four words, layer1.recurrent;
   an earlier row is mixed in, as attention does it. Replace `struct state` and what works on it by calls into your engine; keep
   the rest. A request is one flat JSON line whose texts hold no quotes, so strstr is parser enough.

   cc -std=c11 -O1 -Wall -Wextra -o driver driver.c */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 16, SESSIONS = 64, HANDLES = 256, HEAD = 32, FIXED = 16 + 4 * VOCAB };
struct state { uint64_t position; uint32_t *k, *v; uint32_t recurrent[4]; uint32_t logits[VOCAB]; uint64_t pending; };
struct session {
    int used, busy;                      /* busy: a call is in progress */
    const char *asked, *answered;        /* what is asked in the middle of it, and the word it was refused with */
    struct state state;
    uint32_t *prompt;
    uint64_t start, end;
};

static struct session sessions[SESSIONS];
static struct state handles[HANDLES];
static uint64_t handle_count, chunk = 64, max_seq_len = 4096;
static int in_file = -1, out_file = -1;
static const char *line, *refusal;          /* the request; the word to refuse it with, or NULL */

/* ---- the engine ------------------------------------------------------------------------------------------------ */

static void *make(size_t bytes) {
    void *made = calloc(1, bytes ? bytes : 1);
    if (!made) { fputs("out of memory\n", stderr); exit(3); }
    return made;
}

static void make_rows(struct state *s) {
    s->k = make(max_seq_len * 16);  /* rows of K, then rows of V: two f32 each */
    s->v = s->k + max_seq_len * 2;
}

static uint32_t as_f32(uint32_t word) {  /* the bits of a small number that a float holds exactly */
    float number = (float)(word >> 16) / 256 - 128;
    memcpy(&word, &number, 4);
    return word;
}

static void forward(struct state *s, uint32_t token) {
    uint32_t folded[4], seen = s->position ? s->k[s->recurrent[0] % s->position * 2] : 0;
    for (uint32_t i = 0; i < 4; i++) folded[i] = s->recurrent[i] * 1664525u + seen + token + 1013904223u + i;
    memcpy(s->recurrent, folded, sizeof folded);
    s->k[s->position * 2] = as_f32(folded[0] ^ token);
    s->k[s->position * 2 + 1] = as_f32(folded[1]);
    s->v[s->position * 2] = as_f32(folded[2]);
    s->v[s->position * 2 + 1] = as_f32(folded[3] + token);
    s->position++;
    s->pending = 0;
}

static void finish(struct state *s) {
    for (uint32_t i = 0; i < VOCAB; i++) s->logits[i] = (uint32_t)((uint64_t)s->recurrent[i % 4] * (2 * i + 1) >> 8);
    s->pending = 1;
}

static void clear(struct state *s) {
    uint32_t *k = s->k, *v = s->v;
    memset(s, 0, sizeof *s);
    s->k = k;
    s->v = v;
}

static void copy(struct state *to, const struct state *from) {
    uint32_t *k = to->k, *v = to->v;
    *to = *from;
    to->k = k;
    to->v = v;
    memcpy(k, from->k, from->position * 8);
    memcpy(v, from->v, from->position * 8);
}

static int flip(struct state *s, const char *part, uint64_t byte, uint64_t mask) {
    int k = !strcmp(part, "layer0.k"), rows = k || !strcmp(part, "layer0.v"), fixed = !strcmp(part, "layer1.recurrent");
    uint64_t held = rows ? s->position * 8 : fixed ? sizeof s->recurrent : 0;
    if (byte >= held) { refusal = "missing"; return 0; }
    ((unsigned char *)(k ? s->k : rows ? s->v : s->recurrent))[byte] ^= (unsigned char)mask;
    return 1;
}

/* ---- requests and answers -------------------------------------------------------------------------------------- */

static const char *value(const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(line, key);
    return found ? found + strlen(key) : NULL;
}
static uint64_t number(const char *name, uint64_t otherwise) {
    const char *found = value(name);
    return found ? strtoull(found, NULL, 10) : otherwise;
}
static const char *text(const char *name, char *room, size_t bytes) {
    const char *found = value(name);
    size_t length = found && *found == '"' ? strcspn(found + 1, "\"") : 0;
    if (length >= bytes) length = bytes - 1;
    memcpy(room, length ? found + 1 : "", length);
    room[length] = 0;
    return room;
}

static void put(const void *data, uint64_t at, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(out_file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n <= 0) { perror("out"); exit(3); }
        done += (uint64_t)n;
    }
}
static void *get(uint64_t bytes) {
    char *data = make(bytes);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(in_file, data + done, bytes - done, (off_t)done);
        if (n <= 0) { fputs("in: too few bytes\n", stderr); exit(3); }
        done += (uint64_t)n;
    }
    return data;
}

static uint64_t start_of(void) { return number("id", 0); }
#define ANSWER(...) (printf("{\"id\":%" PRIu64 ",\"ok\":{", start_of()), printf(__VA_ARGS__), puts("}}"))

static int known_options(void) {
    static const char *known[] = {"option.device\"", "option.preset\"", "option.chunk\"", "option.max_seq_len\""};
    for (const char *at = line; (at = strstr(at, "\"option.")); at++) {
        int found = 0;
        for (size_t i = 0; i < 4; i++) found |= !strncmp(at + 1, known[i], strlen(known[i]));
        if (!found) return 0;
    }
    return 1;
}

static uint64_t next_end(const struct session *s, uint64_t from) {
    uint64_t end = (from / chunk + 1) * chunk;
    return end < s->end ? end : s->end;
}
static void begun(const struct session *s, uint64_t cached, uint64_t bytes) {
    printf("{\"id\":%" PRIu64 ",\"ok\":{\"cached\":%" PRIu64 ",\"restored_bytes\":%" PRIu64 ",\"schedule\":[",
           start_of(), cached, bytes);
    for (uint64_t at = s->start; at < s->end; at = next_end(s, at))
        printf("%s%" PRIu64, at == s->start ? "" : ",", next_end(s, at));
    if (s->start == s->end && s->end) printf("%" PRIu64, s->end);
    puts("]}}");
}

/* ---- images: magic, position, pending, checksum; then the fixed part, then the rows ------------------------------- */

static uint64_t checksum(const unsigned char *data, uint64_t bytes) {
    uint64_t sum = 14695981039346656037u;
    for (uint64_t i = 0; i < bytes; i++) sum = (sum ^ data[i]) * 1099511628211u;
    return sum;
}
static uint64_t image_bytes(uint64_t position) { return HEAD + FIXED + position * 16; }

static void export_image(const struct state *s) {
    uint64_t bytes = image_bytes(s->position);
    if (number("capacity", 0) < bytes) { refusal = "short_buffer"; return; }
    unsigned char *image = make(bytes);
    memcpy(image, "TOYIMG01", 8);
    memcpy(image + 8, &s->position, 8);
    memcpy(image + 16, &s->pending, 8);
    memcpy(image + HEAD, s->recurrent, 16);
    memcpy(image + HEAD + 16, s->logits, 4 * VOCAB);
    memcpy(image + HEAD + FIXED, s->k, s->position * 8);
    memcpy(image + HEAD + FIXED + s->position * 8, s->v, s->position * 8);
    uint64_t sum = checksum(image, bytes);  /* of an image whose checksum is zero */
    memcpy(image + 24, &sum, 8);
    put(image, 0, bytes);
    free(image);
    ANSWER("\"at\":0,\"bytes\":%" PRIu64, bytes);
}

static void import_image(struct session *s) {
    uint64_t bytes = number("bytes", 0), position, sum, zero = 0;
    unsigned char *image = get(bytes);
    if (bytes < HEAD + FIXED || memcmp(image, "TOYIMG01", 8)) refusal = "format";
    else {
        memcpy(&position, image + 8, 8);
        memcpy(&sum, image + 24, 8);
        memcpy(image + 24, &zero, 8);
        if (position > max_seq_len) refusal = "capacity";
        else if (bytes != image_bytes(position) || checksum(image, bytes) != sum) refusal = "format";
    }
    if (!refusal) {  /* all is checked: only now is anything written */
        s->state.position = position;
        memcpy(&s->state.pending, image + 16, 8);
        memcpy(s->state.recurrent, image + HEAD, 16);
        memcpy(s->state.logits, image + HEAD + 16, 4 * VOCAB);
        memcpy(s->state.k, image + HEAD + FIXED, position * 8);
        memcpy(s->state.v, image + HEAD + FIXED + position * 8, position * 8);
        s->start = s->end = position;
        begun(s, position, position * 16 + sizeof s->state.recurrent);  /* what was copied of the state */
    }
    free(image);
}

/* ---- archives: docs/formats/archive.md, of f32 rows in segments of version 2 ------------------------------------- */

static uint64_t little(const unsigned char *data, int bytes) {
    uint64_t found = 0;
    for (int i = 0; i < bytes; i++) found |= (uint64_t)data[i] << 8 * i;
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

static uint64_t piece(const unsigned char *at, uint64_t left, uint64_t offset, uint64_t page, unsigned char *rows) {
    /* One record into `rows`; the bytes that it takes, or 0 and a refusal. */
    if (left < 52 + 16) { refusal = "format"; return 0; }
    uint64_t decoded = little(at + 12, 8), count = little(at + 20, 8), length = little(at + 44, 8);
    const unsigned char *segment = at + 52, *maxima = segment + 16, *packed;
    int bins = segment[4], bits = segment[5], centre = bins / 2 - 1;
    if (length > left - 52 || memcmp(segment, "LCG2", 4) || !((bins == 16 && bits == 4) || (bins == 32 && bits == 5))) { refusal = "format"; return 0; }
    uint64_t tokens = little(segment + 6, 2), channels = little(segment + 8, 4), size = little(segment + 12, 4);
    if (!tokens || tokens > 256 || !channels || channels > 1u << 24) { refusal = "format"; return 0; }
    if (size != (tokens * channels * (uint64_t)bits + 7) / 8 || length != 16 + 4 * tokens + size) { refusal = "format"; return 0; }
    if (at[0] != 3 || at[1] != 4 || channels != 2) { refusal = "layout"; return 0; }
    if (at[2] || at[3] || little(at + 28, 8) || little(at + 36, 8)) { refusal = "format"; return 0; }
    if (little(at + 4, 8) != offset || count != tokens || decoded != tokens * 8 || decoded > page - offset) { refusal = "layout"; return 0; }
    packed = maxima + 4 * tokens;
    for (uint64_t i = 0; i < tokens * 2; i++) {
        uint64_t first = i * (uint64_t)bits / 8;
        uint32_t word = packed[first] | (first + 1 < size ? (uint32_t)packed[first + 1] << 8 : 0);
        int symbol = (int)(word >> i * (uint64_t)bits % 8) & ((1 << bits) - 1);
        uint32_t most_bits = (uint32_t)little(maxima + i / 2 * 4, 4);
        float most;
        memcpy(&most, &most_bits, 4);
        if (most_bits >= 0x7f800000 || symbol > bins - 2) { refusal = "format"; return 0; }
        most = half((float)(symbol - centre) / (float)centre * most);
        if (!(most > -65520 && most < 65520)) { refusal = "format"; return 0; }
        memcpy(rows + offset + i * 4, &most, 4);
    }
    return 52 + length;
}

static void import_archive(struct session *s) {
    char codec[64];
    uint64_t bytes = number("bytes", 0), page = s->state.position * 16, at = 16, done = 0, taken;
    if (s->busy) { refusal = "state"; return; }
    if (strcmp(text("codec", codec, sizeof codec), "lmcache-cachegen") || number("version", 0) != 2) { refusal = "unsupported"; return; }
    unsigned char *archive = get(bytes), *rows = make(page);
    if (bytes < 16 || memcmp(archive, "CKG1", 4)) refusal = "format";
    else if (little(archive + 4, 8) != page) refusal = "layout";
    for (uint64_t left = refusal ? 0 : little(archive + 12, 4); left && !refusal; left--) {
        taken = piece(archive + at, bytes - at, done, page, rows);
        done += taken ? little(archive + at + 12, 8) : 0;
        at += taken;
    }
    if (!refusal && at != bytes) refusal = "format";
    if (!refusal && done != page) refusal = "layout";
    if (!refusal) {  /* the toy decodes into memory of its own first; an engine decodes into its rows, once all is checked */
        memcpy(s->state.k, rows, page / 2);
        memcpy(s->state.v, rows + page / 2, page / 2);
        begun(s, s->state.position, page);
    }
    free(archive);
    free(rows);
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

static void parts(const struct state *s) {
    uint64_t meta[2] = {s->position, s->pending}, rows = s->position * 8;
    put(meta, 0, 16);
    put(s->recurrent, 16, 16);
    put(s->k, 32, rows);
    put(s->v, 32 + rows, rows);
    ANSWER("\"parts\":["
           "{\"name\":\"meta\",\"family\":\"meta\",\"layer\":-1,\"type\":\"u8\",\"shape\":[16],\"stream\":\"fixed\",\"at\":0,\"bytes\":16},"
           "{\"name\":\"layer0.k\",\"family\":\"kv\",\"layer\":0,\"type\":\"f32\",\"shape\":[%" PRIu64 ",2],\"stream\":\"rows\",\"at\":32,\"bytes\":%" PRIu64 "},"
           "{\"name\":\"layer0.v\",\"family\":\"kv\",\"layer\":0,\"type\":\"f32\",\"shape\":[%" PRIu64 ",2],\"stream\":\"rows\",\"at\":%" PRIu64 ",\"bytes\":%" PRIu64 "},"
           "{\"name\":\"layer1.recurrent\",\"family\":\"recurrent\",\"layer\":1,\"type\":\"u32\",\"shape\":[4],\"stream\":\"fixed\",\"at\":16,\"bytes\":16}]",
           s->position, rows, s->position, 32 + rows, rows);
}

static void take_prompt(struct session *s, uint64_t start) {
    uint64_t count = number("tokens", 0);
    if (start + count > max_seq_len) { refusal = "capacity"; return; }
    if (!start) clear(&s->state);
    free(s->prompt);
    s->prompt = get(count * 4);
    s->start = start;
    s->end = start + count;
    begun(s, start, 0);
}

static void in_session(const char *op, struct session *s);

/* Between two tokens of a call: ask for what `meanwhile` was told to ask for, once. */
static void in_between(struct session *s) {
    const char *op = s->asked;
    if (!op) return;
    s->asked = NULL;
    s->busy = 1;
    in_session(op, s);
    s->busy = 0;
    s->answered = refusal ? refusal : "";
    refusal = NULL;
}

static void prefill(struct session *s) {
    int quiet = s->asked != NULL;
    uint64_t upto = number("upto", 0), from = s->state.position;
    if (from < s->start || from >= s->end || upto <= from || upto > s->end || (upto % chunk && upto != s->end)) { refusal = "state"; return; }
    while (s->state.position < upto) {
        forward(&s->state, s->prompt[s->state.position - s->start]);
        in_between(s);
    }
    if (upto == s->end) finish(&s->state);
    if (!quiet) ANSWER("\"forwarded\":%" PRIu64, upto - from);
}

static void decode(struct session *s) {
    int quiet = s->asked != NULL;
    uint64_t count = number("count", 0);
    if (strstr(line, "\"sampler.")) { refusal = "unsupported"; return; }
    if (!s->state.pending) { refusal = "state"; return; }
    if (s->state.position + count > max_seq_len) { refusal = "capacity"; return; }
    if (!quiet) printf("{\"id\":%" PRIu64 ",\"ok\":{\"tokens\":[", start_of());
    for (uint64_t i = 0; i < count; i++) {
        uint32_t best = 0;
        for (uint32_t token = 1; token < VOCAB; token++) if (s->state.logits[token] > s->state.logits[best]) best = token;
        if (!quiet) printf("%s%" PRIu32, i ? "," : "", best);
        forward(&s->state, best);
        in_between(s);
        finish(&s->state);
    }
    s->start = s->end = s->state.position;
    if (!quiet) puts("]}}");
}

/* Go on as prefill or decode would, and after the first token ask the session for something else. */
static void meanwhile(struct session *s) {
    static const char *known[][2] = {{"snapshot", "snapshot"}, {"restore", "restore"}, {"export", "export_image"}, {"import", "import_image"},
                                     {"begin", "begin"}, {"extend", "extend"}, {"decode", "decode"}, {"reset", "reset"}};
    char ask[32];
    text("ask", ask, sizeof ask);
    s->asked = s->answered = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) if (!strcmp(ask, known[i][0])) s->asked = known[i][1];
    if (!s->asked) { refusal = "unsupported"; return; }
    if (number("upto", 0)) prefill(s);
    else decode(s);
    s->asked = NULL;
    if (!refusal && !s->answered) refusal = "state";  /* nothing was in progress */
    if (!refusal) ANSWER("\"code\":\"%s\"", s->answered);
}

static struct state *handle_of(void) {
    char name[32];
    uint64_t wanted = strtoull(text("handle", name, sizeof name) + (name[0] == 'h'), NULL, 10);
    if (name[0] != 'h' || !wanted || wanted > handle_count) { refusal = "missing"; return NULL; }
    return &handles[wanted - 1];
}

static void snapshot(const struct state *s) {
    if (handle_count == HANDLES) { refusal = "budget"; return; }
    struct state *saved = &handles[handle_count++];
    make_rows(saved);
    copy(saved, s);
    ANSWER("\"handle\":\"h%" PRIu64 "\"", handle_count);
}

static void restore(struct session *s) {
    struct state *saved = handle_of();
    if (!saved) return;
    copy(&s->state, saved);
    s->start = s->end = saved->position;
    begun(s, saved->position, saved->position * 16 + sizeof saved->recurrent);
}

static void open_engine(void) {
    if (!known_options()) { refusal = "unsupported"; return; }
    chunk = number("option.chunk", chunk);
    max_seq_len = number("option.max_seq_len", max_seq_len);
    if (!chunk || max_seq_len > 1u << 20) { refusal = "unsupported"; return; }
    ANSWER("\"engine\":\"toy_c\",\"version\":\"1\",\"model\":\"toy\",\"model_digest\":\"%s\",\"observability\":\"parts\","
           "\"facts\":{\"chunk\":%" PRIu64 ",\"max_seq_len\":%" PRIu64 ",\"logits_type\":\"u32\"},\"device\":{\"type\":\"cpu\"}",
           "820de734217fe8a425cbf4b1a82ae6e5053faf4af1be74c747e6cbbb0578b0ea", chunk, max_seq_len);
}

static void hello(void) {
    char name[4096];
    in_file = open(text("in", name, sizeof name), O_RDONLY);
    out_file = open(text("out", name, sizeof name), O_RDWR);
    if (in_file < 0 || out_file < 0) { perror("hello"); exit(3); }
    ANSWER("\"protocol\":\"statecert-stdio\",\"version\":1,\"capabilities\":[\"parts\",\"logits\",\"boundaries\","
           "\"snapshot\",\"extend\",\"image\",\"corrupt\",\"meanwhile\",\"archive\"],\"devices\":[{\"name\":\"cpu\",\"absent\":\"\"}],"
           "\"archives\":[{\"codec\":\"lmcache-cachegen\",\"version\":2}]");
}

static void open_session(void) {
    int free_one = 0;
    while (free_one < SESSIONS && sessions[free_one].used) free_one++;
    if (strstr(line, "\"option.")) refusal = "unsupported";
    else if (free_one == SESSIONS) refusal = "budget";
    else {
        sessions[free_one].used = 1;
        make_rows(&sessions[free_one].state);
        ANSWER("\"session\":%d", free_one + 1);
    }
}

static void let_go(struct session *s) {
    free(s->state.k);
    free(s->prompt);
    memset(s, 0, sizeof *s);
}

static void in_session(const char *op, struct session *s) {
    char part[64];
    if (s->busy) { refusal = "state"; return; }
    if (!strcmp(op, "begin")) take_prompt(s, 0);
    else if (!strcmp(op, "extend")) take_prompt(s, s->state.position);
    else if (!strcmp(op, "prefill")) prefill(s);
    else if (!strcmp(op, "decode")) decode(s);
    else if (!strcmp(op, "meanwhile")) meanwhile(s);
    else if (!strcmp(op, "position")) ANSWER("\"position\":%" PRIu64, s->state.position);
    else if (!strcmp(op, "logits")) {
        put(s->state.logits, 0, sizeof s->state.logits);
        ANSWER("\"at\":0,\"bytes\":%zu", s->state.pending ? sizeof s->state.logits : 0);
    }
    else if (!strcmp(op, "parts")) parts(&s->state);
    else if (!strcmp(op, "snapshot")) snapshot(&s->state);
    else if (!strcmp(op, "restore")) restore(s);
    else if (!strcmp(op, "image_size")) ANSWER("\"bytes\":%" PRIu64, image_bytes(s->state.position));
    else if (!strcmp(op, "export_image")) export_image(&s->state);
    else if (!strcmp(op, "import_image")) import_image(s);
    else if (!strcmp(op, "import_archive")) import_archive(s);
    else if (!strcmp(op, "corrupt")) { if (flip(&s->state, text("part", part, sizeof part), number("byte", 0), number("mask", 0))) ANSWER("%s", ""); }
    else if (!strcmp(op, "reset")) { clear(&s->state); s->start = s->end = 0; ANSWER("%s", ""); }
    else if (!strcmp(op, "close_session")) { let_go(s); ANSWER("%s", ""); }
    else if (!strcmp(op, "commit") || !strcmp(op, "abandon")) ANSWER("%s", "");
    else refusal = "unsupported";
}

int main(void) {
    char *room = NULL, op[32];
    size_t size = 0;
    while (getline(&room, &size, stdin) > 0) {
        line = room;
        refusal = NULL;
        uint64_t wanted = number("session", 0);
        text("op", op, sizeof op);
        if (!strcmp(op, "hello")) hello();
        else if (!strcmp(op, "open")) open_engine();
        else if (!strcmp(op, "open_session")) open_session();
        else if (!strcmp(op, "corrupt_handle")) {
            char part[64];
            struct state *saved = handle_of();
            if (saved && flip(saved, text("part", part, sizeof part), number("byte", 0), number("mask", 0))) ANSWER("%s", "");
        }
        else if (!strcmp(op, "close")) ANSWER("%s", "");
        else if (wanted && wanted <= SESSIONS && sessions[wanted - 1].used) in_session(op, &sessions[wanted - 1]);
        else refusal = "missing";
        if (refusal) printf("{\"id\":%" PRIu64 ",\"refused\":\"%s\"}\n", start_of(), refusal);
        fflush(stdout);
        if (!strcmp(op, "close")) break;
    }
    for (int i = 0; i < SESSIONS; i++) let_go(&sessions[i]);
    for (uint64_t i = 0; i < handle_count; i++) free(handles[i].k);
    free(room);
    return 0;
}
