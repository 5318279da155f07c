/* A driver of the stdio protocol in C, docs/formats/stdio.md: its operations become calls of an engine, here of a toy.

   Put your engine in the place of toy.c, and its calls into this file; protocol.c and cachegen.c stay as they are.
   An operation answers and returns NULL, or returns the word that it refuses with.

   cc -std=c11 -O1 -Wall -o driver *.c */
#include "toy.h"
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 64, HANDLES = 256 };
struct session {
    int used;
    struct toy state;
    uint32_t *prompt;
    u64 start, end;  /* the prompt is for the positions from start to end */
};
static struct session sessions[SESSIONS];
static struct toy handles[HANDLES];
static u64 handle_count, chunk = 64;

/* ---- who this is, and what it can do ---- */

static const char *hello(void) {
    open_files();
    return answer("'protocol':'statecert-stdio','version':1,'devices':[{'name':'cpu','absent':''}],"
                  "'capabilities':['parts','logits','boundaries','snapshot','extend','image','corrupt','meanwhile',"
                  "'archive'],"
                  "'archives':[{'codec':'lmcache-cachegen','version':2}]");
}

static const char *open_engine(void) {
    static const char *known[] = {"device", "preset", "chunk", "max_seq_len"};
    chunk = number("option.chunk", chunk);
    toy_most = number("option.max_seq_len", toy_most);
    if (has_other_option(known, 4) || !chunk || toy_most > 1u << 20) return "unsupported";
    return answer("'engine':'toy_c','version':'1','model':'toy','observability':'parts','device':{'type':'cpu'},"
                  "'model_digest':'820de734217fe8a425cbf4b1a82ae6e5053faf4af1be74c747e6cbbb0578b0ea',"
                  "'facts':{'chunk':%llu,'max_seq_len':%llu,'logits_type':'u32'}", chunk, toy_most);
}

static const char *open_session(void) {
    int free_one = 0;
    while (free_one < SESSIONS && sessions[free_one].used) free_one++;
    if (has("option.")) return "unsupported";
    if (free_one == SESSIONS) return "budget";
    sessions[free_one].used = 1;
    toy_make(&sessions[free_one].state);
    return answer("'session':%d", free_one + 1);
}

/* ---- tokens in and out ---- */

static const char *begun(struct session *s, u64 start, u64 end, u64 restored_bytes) {
    s->start = start;
    s->end = end;
    return answer_begun(start, end, chunk, start, restored_bytes);
}

static const char *take_prompt(struct session *s, u64 start) {
    u64 count = number("tokens", 0);
    if (start + count > toy_most) return "capacity";
    if (!start) toy_clear(&s->state);
    free(s->prompt);
    s->prompt = take(count * 4);
    return begun(s, start, start + count, 0);
}
static const char *begin(struct session *s) { return take_prompt(s, 0); }
static const char *extend(struct session *s) { return take_prompt(s, s->state.position); }

static const char *in_session(const char *op, struct session *s);

static const char *prefill(struct session *s) {
    u64 upto = number("upto", 0), from = s->state.position;
    int scheduled = upto % chunk == 0 || upto == s->end;
    if (from < s->start || upto <= from || upto > s->end || !scheduled) return "state";
    while (s->state.position < upto) {
        toy_forward(&s->state, s->prompt[s->state.position - s->start]);
        in_between(s, in_session);
    }
    if (upto == s->end) toy_finish(&s->state);
    return answer("'forwarded':%llu", upto - from);
}

static const char *decode(struct session *s) {
    u64 count = number("count", 0);
    if (has("sampler.")) return "unsupported";
    if (!s->state.pending) return "state";
    if (s->state.position + count > toy_most) return "capacity";
    uint32_t *tokens = make(count * 4);
    for (u64 i = 0; i < count; i++) {
        toy_forward(&s->state, tokens[i] = toy_best(&s->state));
        in_between(s, in_session);
        toy_finish(&s->state);
    }
    s->start = s->end = s->state.position;
    answer("'tokens':[");
    for (u64 i = 0; i < count; i++) answer(i ? ",%u" : "%u", tokens[i]);
    answer("]");
    free(tokens);
    return NULL;
}

static const char *meanwhile(struct session *s) { return run_asked(s, number("upto", 0) ? prefill : decode); }

/* ---- what is seen of a session ---- */

static const char *position(struct session *s) { return answer("'position':%llu", s->state.position); }

static const char *logits(struct session *s) {
    return answer_bytes(s->state.logits, s->state.pending ? sizeof s->state.logits : 0);
}

static const char *parts(struct session *s) {
    u64 meta[2] = {s->state.position, s->state.pending}, bytes = toy_row_bytes(&s->state);
    put(meta, 0, 16);
    put(s->state.recurrent, 16, 16);
    put(s->state.k, 32, bytes);
    put(s->state.v, 32 + bytes, bytes);
    answer("'parts':[");
    answer_part("meta", "meta", -1, "u8", 16, 0, 0, 16);
    answer_part("layer0.k", "kv", 0, "f32", s->state.position, TOY_CHANNELS, 32, bytes);
    answer_part("layer0.v", "kv", 0, "f32", s->state.position, TOY_CHANNELS, 32 + bytes, bytes);
    answer_part("layer1.recurrent", "recurrent", 1, "u32", 4, 0, 16, 16);
    return answer("]");
}

/* ---- what brings it back: count bytes where they are copied; check everything before any is written ---- */

static struct toy *saved(void) {
    char name[32];
    u64 wanted = strtoull(text("handle", name, sizeof name) + (name[0] == 'h'), NULL, 10);
    return name[0] == 'h' && wanted && wanted <= handle_count ? &handles[wanted - 1] : NULL;
}

static const char *snapshot(struct session *s) {
    if (handle_count == HANDLES) return "budget";
    toy_make(&handles[handle_count]);
    toy_copy(&handles[handle_count], &s->state);
    return answer("'handle':'h%llu'", ++handle_count);
}

static const char *restore(struct session *s) {
    if (!saved()) return "missing";
    u64 copied = toy_copy(&s->state, saved());
    return begun(s, s->state.position, s->state.position, copied);
}

static const char *image_size(struct session *s) { return answer("'bytes':%llu", toy_image_bytes(&s->state)); }

static const char *export_image(struct session *s) {
    u64 bytes = toy_image_bytes(&s->state);
    if (number("capacity", 0) < bytes) return "short_buffer";
    unsigned char *image = make(bytes);
    toy_export(&s->state, image);
    answer_bytes(image, bytes);
    free(image);
    return NULL;
}

static const char *bring(struct session *s, const char *(*in)(struct toy *, unsigned char *, u64, u64 *)) {
    u64 bytes = number("bytes", 0), copied = 0;
    unsigned char *data = take(bytes);
    const char *word = in(&s->state, data, bytes, &copied);
    free(data);
    return word ? word : answer_begun(s->state.position, s->state.position, chunk, s->state.position, copied);
}

static const char *import_image(struct session *s) {
    const char *word = bring(s, toy_import);
    if (!word) s->start = s->end = s->state.position;
    return word;
}

static const char *import_archive(struct session *s) {
    char codec[64];
    text("codec", codec, sizeof codec);
    if (strcmp(codec, "lmcache-cachegen") || number("version", 0) != 2) return "unsupported";
    return bring(s, toy_import_archive);
}

static const char *flip(struct toy *state) {
    char part[64];
    return state ? toy_flip(state, text("part", part, sizeof part), number("byte", 0), number("mask", 0)) : "missing";
}
static const char *corrupt(struct session *s) { return flip(&s->state); }

static const char *nothing(struct session *s) { (void)s; return NULL; }  /* commit, abandon: there is no prefix cache */

static const char *reset(struct session *s) {
    toy_clear(&s->state);
    s->start = s->end = 0;
    return NULL;
}

static const char *close_session(struct session *s) {
    toy_free(&s->state);
    free(s->prompt);
    *s = (struct session){0};
    return NULL;
}

/* ---- the operations by name ---- */

static const char *in_session(const char *op, struct session *s) {
    static const struct { const char *op, *(*run)(struct session *); } known[] = {
        {"begin", begin}, {"extend", extend}, {"prefill", prefill}, {"decode", decode}, {"meanwhile", meanwhile},
        {"position", position}, {"logits", logits}, {"parts", parts}, {"snapshot", snapshot}, {"restore", restore},
        {"image_size", image_size}, {"export_image", export_image}, {"import_image", import_image},
        {"import_archive", import_archive}, {"corrupt", corrupt}, {"commit", nothing}, {"abandon", nothing},
        {"reset", reset}, {"close_session", close_session},
    };
    if (is_busy(s)) return "state";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) if (!strcmp(op, known[i].op)) return known[i].run(s);
    return "unsupported";
}

static const char *run(const char *op) {
    u64 wanted = number("session", 0);
    if (!strcmp(op, "hello")) return hello();
    if (!strcmp(op, "open")) return open_engine();
    if (!strcmp(op, "open_session")) return open_session();
    if (!strcmp(op, "corrupt_handle")) return flip(saved());
    if (!strcmp(op, "close")) return NULL;
    if (!wanted || wanted > SESSIONS || !sessions[wanted - 1].used) return "missing";
    return in_session(op, &sessions[wanted - 1]);
}

int main(void) {
    int status = serve(run);
    for (int i = 0; i < SESSIONS; i++) close_session(&sessions[i]);
    for (u64 i = 0; i < handle_count; i++) toy_free(&handles[i]);
    return status;
}
