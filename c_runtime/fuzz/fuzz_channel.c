/*
 * Fuzz target: what the agent of c_runtime/agent does with the bytes of a connection, with programs that are not run. An
 * input is a script: of each step a byte says what the tool sends, the next two how much of what follows goes into it.
 * Whatever was sent, what the agent answers is whole, and a new connection is greeted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define QUOTA 4096u
#define HELLO_BYTES 46u

enum { RAW, RECORD, PUT, PUT_SHORT, START, ATTACH, FACTS, DAMAGED, STEPS };

static ag_server_t server;
static ag_channel_t tool; /* the other side */
static ag_conn_t *conn;
static bool alive;

/* ---- instead of run.c ---- */

bool ag_run_start(ag_run_t *run, ag_store_t *store, const ag_limits_t *limits, ag_refusal_t *refusal)
{
    (void)store;
    (void)limits;
    if (run->name[0] == '0') {
        return ag_refuse(refusal, AG_ROOM, "the agent cannot start it: %s", "a test");
    }
    run->watcher = 1;
    run->in = run->out = run->err = run->lifeline = -1;
    run->report = 0;
    return ag_random(run->id, sizeof run->id);
}

void ag_run_give(ag_run_t *run, const uint8_t *data, size_t n)
{
    if (n != 0 && data[n - 1u] == 0) { /* it ends */
        run->report = -1;
        run->words_n = n < AG_WORDS ? n : AG_WORDS;
        memcpy(run->words, data, run->words_n);
    }
}

void ag_run_stop(ag_run_t *run)
{
    run->report = -1;
}

void ag_run_drop(ag_run_t *run)
{
    memset(run, 0, sizeof *run);
}

bool ag_run_is_over(const ag_run_t *run)
{
    return run->report < 0;
}

/* ---- the other side ---- */

/* Whether the agent has sent whole records with the right tags; what it has sent is taken. */
static void check_answers(void)
{
    ag_bytes_t *out = &conn->channel.out;
    ag_record_t record;
    if (out->at == out->end) {
        return;
    }
    if (!ag_bytes_reserve(&tool.in, out->end - out->at)) {
        abort();
    }
    memcpy(tool.in.bytes + tool.in.end, out->bytes + out->at, out->end - out->at);
    tool.in.end += out->end - out->at;
    out->at = out->end = 0;
    ag_next_t next;
    while ((next = ag_channel_next(&tool, &record)) == AG_RECORD) {
        if (record.kind == AG_K_WELCOME) { /* what follows has other tags */
            uint8_t to[AG_SHA256_BYTES], from[AG_SHA256_BYTES];
            ag_derive(&server.key, "from tool", conn->transcript, AG_SHA256_BYTES, to);
            ag_derive(&server.key, "from agent", conn->transcript, AG_SHA256_BYTES, from);
            ag_channel_switch(&tool, to, from);
        }
    }
    if (next == AG_BROKEN || tool.in.at != tool.in.end) {
        abort();
    }
}

static void feed(const uint8_t *bytes, size_t n)
{
    while (alive && n != 0) {
        size_t room;
        uint8_t *place = ag_channel_room(&conn->channel, &room);
        if (place == NULL || room == 0) {
            abort();
        }
        room = room < n ? room : n;
        memcpy(place, bytes, room);
        conn->channel.in.end += room;
        bytes += room;
        n -= room;
        alive = ag_conn_step(conn);
        check_answers();
    }
}

static void say(uint8_t kind, const void *body, size_t n, bool damaged)
{
    if (!ag_channel_send(&tool, kind, body, (uint32_t)n)) {
        abort();
    }
    if (damaged) {
        tool.out.bytes[tool.out.end - 1u] ^= 1u;
    }
    feed(tool.out.bytes + tool.out.at, tool.out.end - tool.out.at);
    tool.out.at = tool.out.end = 0;
}

static void connect(bool keyed)
{
    uint8_t hello[HELLO_BYTES] = {'X', 'L', 'A', 'G', 1, 1};
    hello[40] = HELLO_BYTES - 41u;
    server.keyed = keyed;
    ag_channel_free(&tool);
    ag_channel_init(&tool);
    tool.max_body = AG_MAX_BODY;
    conn = ag_conn_open(&server, open("/dev/null", O_RDWR), open("/dev/null", O_RDWR));
    alive = conn != NULL;
    say(AG_K_HELLO, hello, sizeof hello, false);
    if (keyed && alive) {
        uint8_t proof[AG_SHA256_BYTES];
        ag_derive(&server.key, "tool", conn->transcript, AG_SHA256_BYTES, proof);
        say(AG_K_PROOF, proof, sizeof proof, false);
    }
    if (!alive || conn->state != AG_READY) {
        abort();
    }
}

static void prepare(void)
{
    static char folder[] = "/tmp/fuzz-channel-XXXXXX";
    ag_refusal_t refusal;
    if (server.store.root != NULL) {
        return;
    }
    server.store.root = mkdtemp(folder);
    server.store.quota = QUOTA;
    server.listener = server.lock = -1;
    char code[24];
    if (!ag_store_open(&server.store, &refusal) || !ag_new_code(code) || !ag_key_of_code(&server.key, code)) {
        abort();
    }
}

/* A program that is what it was announced to be, or less of it. */
static void put(const uint8_t *data, size_t n, bool whole, uint8_t digest[48])
{
    ag_sha256_t hash;
    ag_sha256_init(&hash);
    ag_sha256_update(&hash, data, n);
    ag_sha256_final(&hash, digest);
    ag_put(digest + AG_SHA256_BYTES, n, 8);
    say(AG_K_PUT, digest, AG_SHA256_BYTES + 8u, false);
    say(AG_K_CHUNK, data, whole ? n : n / 2u, false);
}

static void step(uint8_t what, uint8_t kind, const uint8_t *data, size_t n, uint8_t digest[48])
{
    switch (what % STEPS) {
    case RAW:
        feed(data, n);
        break;
    case PUT:
    case PUT_SHORT:
        put(data, n, what % STEPS == PUT, digest);
        break;
    case START:
        say(AG_K_START, digest, 48, false);
        break;
    case ATTACH:
        say(AG_K_ATTACH, server.runs[kind % AG_RUNS].id, AG_ID, false);
        break;
    case FACTS:
        say(AG_K_FACTS, NULL, 0, false);
        break;
    default:
        say(kind % 24u, data, n, what % STEPS == DAMAGED);
    }
}

static void end(void)
{
    ag_conn_close(conn);
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        memset(&server.runs[i], 0, sizeof server.runs[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t digest[48] = {0};
    prepare();
    if (size == 0 || size > 65536) {
        return 0;
    }
    connect((data[0] & 1u) != 0);
    for (size_t at = 1; alive && at + 3 <= size;) {
        size_t n = data[at + 1] | (size_t)data[at + 2] << 8;
        uint8_t what = data[at];
        at += 3;
        n = n < size - at ? n : size - at;
        step(what, (uint8_t)(what / STEPS), data + at, n, digest);
        at += n;
    }
    end();
    connect((data[0] & 2u) != 0);
    end();
    return 0;
}
