/* From tokens to a text, one after the other. */
#include "tok_parts.h"

typedef struct {
    sdk_tok_stream_t *stream;
    char *out;
    size_t n, cap;
    bool full;
} writer_t;

void sdk_tok_stream(sdk_tok_stream_t *stream, const sdk_tok_t *tok, bool specials)
{
    uint32_t n;
    const tok_change_t *change = tok_changes(tok, SDK_TOK_DECODERS, &n);
    memset(stream, 0, sizeof *stream);
    stream->tok = tok;
    stream->specials = specials;
    for (uint32_t i = 0; i < n; ++i) {
        stream->left = change[i].kind == TOK_STRIP ? change[i].to : stream->left;
    }
}

/* A byte of the text: the characters at its begin that are taken away are single bytes. */
static void write_byte(writer_t *w, uint8_t byte)
{
    uint8_t out[8];
    sdk_tok_stream_t *s = w->stream;
    if (s->left != 0) {
        if (byte == ' ') {
            --s->left;
            return;
        }
        s->left = 0;
    }
    size_t n = tok_repair(s->held, &s->n_held, byte, out);
    if (n > w->cap - w->n) {
        w->full = true;
        return;
    }
    memcpy(w->out + w->n, out, n);
    w->n += n;
}

static void write_all(writer_t *w, const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        write_byte(w, s[i]);
    }
}

/* The text of a token with what decoding puts in the place of some of it: at most one such change is made at a place. */
static void write_token(writer_t *w, const uint8_t *s, size_t n)
{
    const sdk_tok_t *tok = w->stream->tok;
    const uint8_t *strings = tok->part[SDK_TOK_STRINGS].data;
    uint32_t changes;
    const tok_change_t *change = tok_changes(tok, SDK_TOK_DECODERS, &changes);
    for (size_t i = 0; i < n;) {
        const tok_change_t *found = NULL;
        bool strip = false;
        for (uint32_t k = 0; k < changes && found == NULL; ++k) {
            strip = strip || (change[k].kind == TOK_STRIP_TOKEN && !w->stream->begun);
            if (change[k].kind == TOK_SHOW && change[k].from_bytes <= n - i &&
                memcmp(s + i, strings + change[k].from, change[k].from_bytes) == 0) {
                found = &change[k];
            }
        }
        if (found == NULL) {
            write_byte(w, s[i++]);
            continue;
        }
        if (!strip) {
            write_all(w, strings + found->to, found->to_bytes);
        }
        i += found->from_bytes;
    }
}

static uint8_t hex(uint8_t digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

sdk_tok_status_t sdk_tok_next(sdk_tok_stream_t *stream, uint32_t id, char *out, size_t cap, size_t *n)
{
    const sdk_tok_t *tok = stream->tok;
    *n = 0;
    if (id >= tok->tokens) {
        return SDK_TOK_ID;
    }
    uint8_t flags = tok->part[SDK_TOK_FLAGS].data[id];
    if ((flags & TOK_IS_HOLE) || ((flags & TOK_IS_SPECIAL) && !stream->specials)) {
        return SDK_TOK_OK;
    }
    sdk_tok_stream_t before = *stream;
    writer_t w = {stream, out, 0, cap, false};
    const uint32_t *at = tok_words(tok, SDK_TOK_TEXT_AT);
    const uint8_t *text = tok->part[SDK_TOK_TEXT].data + at[id];
    size_t length = at[id + 1u] - at[id];
    if ((flags & TOK_IS_BYTE) && length == 6u) {
        write_byte(&w, (uint8_t)(hex(text[3]) << 4 | hex(text[4])));
    } else {
        write_token(&w, text, length);
    }
    stream->begun = true;
    if (w.full) {
        *stream = before;
        return SDK_TOK_SPACE;
    }
    *n = w.n;
    return SDK_TOK_OK;
}

sdk_tok_status_t sdk_tok_end(sdk_tok_stream_t *stream, char *out, size_t cap, size_t *n)
{
    uint8_t broken[4];
    *n = 0;
    if (stream->n_held != 0) {
        if (cap < 3u) {
            return SDK_TOK_SPACE;
        }
        *n = tok_put_utf8(0xFFFDu, broken);
        memcpy(out, broken, *n);
        stream->n_held = 0;
    }
    return SDK_TOK_OK;
}
