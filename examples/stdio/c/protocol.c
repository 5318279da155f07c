/* A request is one flat JSON line whose texts hold no quotes, so strstr is parser enough. */
#define _POSIX_C_SOURCE 200809L
#include "protocol.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in_file = -1, out_file = -1;
static const char *line = "";
static char *said;
static size_t said_bytes, said_room;

static void ended(const char *why) {
    perror(why);
    exit(3);
}

void *make(u64 bytes) {
    void *made = calloc(1, bytes ? bytes : 1);
    if (!made) ended("memory");
    return made;
}

static const char *value(const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(line, key);
    return found ? found + strlen(key) : NULL;
}

u64 number(const char *name, u64 otherwise) {
    const char *found = value(name);
    return found ? strtoull(found, NULL, 10) : otherwise;
}

const char *text(const char *name, char *room, size_t bytes) {
    const char *found = value(name);
    size_t length = found && *found == '"' ? strcspn(found + 1, "\"") : 0;
    if (length >= bytes) length = bytes - 1;
    memcpy(room, length ? found + 1 : "", length);
    room[length] = 0;
    return room;
}

int has(const char *start) {
    char key[64];
    snprintf(key, sizeof key, "\"%s", start);
    return strstr(line, key) != NULL;
}

int has_other_option(const char *const *known, size_t count) {
    static const char start[] = "\"option.";
    for (const char *at = line; (at = strstr(at, start)); at++) {
        const char *name = at + strlen(start);
        size_t length = strcspn(name, "\""), i = 0;
        while (i < count && (strlen(known[i]) != length || strncmp(name, known[i], length))) i++;
        if (i == count) return 1;
    }
    return 0;
}

const char *answer(const char *format, ...) {
    for (;;) {
        va_list given;
        va_start(given, format);
        int more = vsnprintf(said ? said + said_bytes : NULL, said_room - said_bytes, format, given);
        va_end(given);
        if (more < 0) ended("answer");
        if ((size_t)more < said_room - said_bytes) {
            for (char *at = said + said_bytes; *at; at++) if (*at == '\'') *at = '"';
            said_bytes += (size_t)more;
            return NULL;
        }
        said_room += (size_t)more + 4096;
        said = realloc(said, said_room);
        if (!said) ended("memory");
    }
}

static void forget(void) { said_bytes = 0; }

static const char *asked(void) {  /* the operation that `meanwhile` asks for; NULL: an unknown one */
    static const char *known[][2] = {
        {"snapshot", "snapshot"}, {"restore", "restore"}, {"export", "export_image"}, {"import", "import_image"},
        {"begin", "begin"}, {"extend", "extend"}, {"decode", "decode"}, {"reset", "reset"},
    };
    char ask[32];
    text("ask", ask, sizeof ask);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) if (!strcmp(ask, known[i][0])) return known[i][1];
    return NULL;
}

static const char *middle_op, *middle_word;  /* what is asked in the middle of a call; what it was refused with */
static const struct session *busy;

const char *run_asked(struct session *s, const char *(*call)(struct session *)) {
    middle_word = NULL;
    middle_op = asked();
    if (!middle_op) return "unsupported";
    const char *word = call(s);
    middle_op = NULL;
    forget();
    if (word || !middle_word) return word ? word : "state";
    return answer("'code':'%s'", middle_word);
}

void in_between(struct session *s, const char *(*run)(const char *op, struct session *)) {
    const char *op = middle_op;
    if (!op) return;
    middle_op = NULL;
    busy = s;
    middle_word = run(op, s);
    if (!middle_word) middle_word = "";
    busy = NULL;
    forget();
}

int is_busy(const struct session *s) { return busy == s; }

const char *answer_begun(u64 start, u64 end, u64 chunk, u64 cached, u64 restored_bytes) {
    answer("'cached':%llu,'restored_bytes':%llu,'schedule':[", cached, restored_bytes);
    for (u64 at = (start / chunk + 1) * chunk; at < end; at += chunk) answer("%llu,", at);
    if (end) answer("%llu", end);
    return answer("]");
}

void answer_part(const char *name, const char *family, int layer, const char *type, u64 rows, u64 width, u64 at,
                 u64 bytes) {
    if (said_bytes && said[said_bytes - 1] == '}') answer(",");
    answer("{'name':'%s','family':'%s','layer':%d,'type':'%s'", name, family, layer, type);
    answer(",'at':%llu,'bytes':%llu", at, bytes);
    if (width) answer(",'stream':'rows','shape':[%llu,%llu]}", rows, width);
    else answer(",'stream':'fixed','shape':[%llu]}", rows);
}

void open_files(void) {
    char name[4096];
    in_file = open(text("in", name, sizeof name), O_RDONLY);
    out_file = open(text("out", name, sizeof name), O_RDWR);
    if (in_file < 0 || out_file < 0) ended("hello");
}

void put(const void *data, u64 at, u64 bytes) {
    for (u64 done = 0; done < bytes;) {
        ssize_t n = pwrite(out_file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n <= 0) ended("out");
        done += (u64)n;
    }
}

const char *answer_bytes(const void *data, u64 bytes) {
    put(data, 0, bytes);
    return answer("'at':0,'bytes':%llu", bytes);
}

void *take(u64 bytes) {
    char *data = make(bytes);
    for (u64 done = 0; done < bytes;) {
        ssize_t n = pread(in_file, data + done, bytes - done, (off_t)done);
        if (n <= 0) ended("in: too few bytes");
        done += (u64)n;
    }
    return data;
}

int serve(const char *(*run)(const char *op)) {
    char *room = NULL, op[32] = "";
    size_t size = 0;
    while (strcmp(op, "close") && getline(&room, &size, stdin) > 0) {
        line = room;
        forget();
        const char *word = run(text("op", op, sizeof op));
        printf("{\"id\":%llu,", number("id", 0));
        if (word) printf("\"refused\":\"%s\"}\n", word);
        else printf("\"ok\":{%.*s}}\n", (int)said_bytes, said ? said : "");
        fflush(stdout);
    }
    free(room);
    free(said);
    return 0;
}
