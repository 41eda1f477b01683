/* One connection: the greeting, then requests. Bytes come and go elsewhere. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

#define VERSION 1u
#define GREETING_MS 5000u
#define CHUNK_MS 10000u /* between two pieces of an upload */
#define IDLE_MS 3600000u
#define MAX_PROGRAM (1ull << 40)
#define HELLO_BYTES 41u
#define CHALLENGE_BYTES 32u
#define PUT_BYTES 40u
#define START_BYTES 48u
#define HEAD_BYTES 20u
#define FACTS_BYTES (192u << 10)

static const uint8_t magic[4] = {'X', 'L', 'A', 'G'};

bool ag_refuse(ag_refusal_t *refusal, uint8_t why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    refusal->why = why;
    (void)vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
    return false;
}

uint64_t ag_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- who has the machine ---- */

static bool is_held(const ag_server_t *server)
{
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        const ag_run_t *run = &server->runs[i];
        if (run->watcher != 0 && !run->dropped && memcmp(run->client, server->holder, AG_ID) == 0) {
            return true;
        }
    }
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        const ag_conn_t *conn = server->conns[i];
        if (conn != NULL && conn->holds && memcmp(conn->client, server->holder, AG_ID) == 0) {
            return true;
        }
    }
    return false;
}

const char *ag_holder(ag_server_t *server)
{
    return server->has_holder && is_held(server) ? server->label : NULL;
}

/* Agents of other processes have the same folder, and a file there that says who holds it. */
static bool lock(ag_server_t *server, const ag_conn_t *conn, ag_refusal_t *refusal)
{
    uint8_t who[AG_ID + AG_LABEL + 1u] = {0};
    bool full = false;
    if (server->lock < 0 || server->locked) {
        return true;
    }
    if (flock(server->lock, LOCK_EX | LOCK_NB) == 0) {
        memcpy(who, conn->client, AG_ID);
        memcpy(who + AG_ID, conn->label, AG_LABEL);
        full = pwrite(server->lock, who, sizeof who, 0) != (ssize_t)sizeof who;
        server->locked = !full && flock(server->lock, LOCK_SH | LOCK_NB) == 0;
    } else if (flock(server->lock, LOCK_SH | LOCK_NB) == 0) {
        bool read_it = pread(server->lock, who, sizeof who, 0) == (ssize_t)sizeof who;
        server->locked = read_it && memcmp(who, conn->client, AG_ID) == 0;
    }
    if (!server->locked) {
        (void)flock(server->lock, LOCK_UN);
        const char *whose = full ? "its disk is full" : who[AG_ID] != 0 ? (const char *)who + AG_ID : "somebody";
        return ag_refuse(refusal, full ? AG_ROOM : AG_BUSY, full ? "%.*s" : "%.*s uses it", (int)AG_LABEL, whose);
    }
    return true;
}

bool ag_hold(ag_conn_t *conn, ag_refusal_t *refusal)
{
    ag_server_t *server = conn->server;
    ag_release(server); /* the file says who it was */
    if (server->has_holder && memcmp(server->holder, conn->client, AG_ID) != 0 && is_held(server)) {
        return ag_refuse(refusal, AG_BUSY, "%s uses it", server->label[0] != '\0' ? server->label : "somebody");
    }
    if (!lock(server, conn, refusal)) {
        return false;
    }
    memcpy(server->holder, conn->client, AG_ID);
    memcpy(server->label, conn->label, sizeof server->label);
    server->has_holder = true;
    conn->holds = true;
    return true;
}

void ag_release(ag_server_t *server)
{
    if (server->locked && !is_held(server)) {
        (void)flock(server->lock, LOCK_UN);
        server->locked = false;
    }
}

/* ---- connections ---- */

ag_conn_t *ag_conn_open(ag_server_t *server, int in, int out)
{
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        if (server->conns[i] == NULL) {
            ag_conn_t *conn = calloc(1, sizeof *conn);
            if (conn == NULL) {
                return NULL;
            }
            ag_channel_init(&conn->channel);
            conn->server = server;
            conn->in = in;
            conn->out = out;
            conn->upload.fd = -1;
            conn->number = ++server->arrivals;
            conn->deadline_ms = ag_now_ms() + GREETING_MS;
            server->conns[i] = conn;
            return conn;
        }
    }
    return NULL;
}

void ag_conn_close(ag_conn_t *conn)
{
    ag_server_t *server = conn->server;
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        if (server->conns[i] == conn) {
            server->conns[i] = NULL;
        }
    }
    if (conn->run != NULL) {
        conn->run->lost_ms = ag_now_ms();
    }
    ag_upload_close(&conn->upload);
    ag_channel_free(&conn->channel);
    close(conn->in);
    if (conn->out != conn->in) {
        close(conn->out);
    }
    free(conn);
}

bool ag_conn_expired(ag_conn_t *conn)
{
    return conn->state != AG_RUNNING && ag_now_ms() >= conn->deadline_ms;
}

static bool send_refusal(ag_conn_t *conn, const ag_refusal_t *refusal)
{
    uint8_t body[1u + AG_TEXT];
    size_t n = strlen(refusal->text);
    body[0] = refusal->why;
    memcpy(body + 1, refusal->text, n);
    return ag_channel_send(&conn->channel, AG_K_REFUSED, body, 1u + (uint32_t)n);
}

/* ---- the greeting ---- */

static bool greeted(ag_conn_t *conn)
{
    conn->state = AG_READY;
    conn->channel.max_body = AG_MAX_BODY;
    return true;
}

static bool hello(ag_conn_t *conn, const ag_record_t *record)
{
    const ag_server_t *server = conn->server;
    const uint8_t *mine = record->body;
    uint8_t theirs[CHALLENGE_BYTES] = {0};
    if (record->kind != AG_K_HELLO || record->size < HELLO_BYTES || memcmp(mine, magic, sizeof magic) != 0 ||
        mine[40] > AG_LABEL || record->size != HELLO_BYTES + mine[40]) {
        return false;
    }
    memcpy(conn->client, mine + 24, AG_ID);
    for (unsigned i = 0; i < mine[40]; ++i) {
        uint8_t sign = mine[HELLO_BYTES + i];
        conn->label[i] = sign >= 0x20 && sign < 0x7f ? (char)sign : '?';
    }
    if (mine[4] > VERSION || mine[5] < VERSION) {
        ag_refusal_t refusal;
        (void)ag_refuse(&refusal, AG_VERSION_OTHER, "this agent speaks version %u", VERSION);
        (void)send_refusal(conn, &refusal);
        return false;
    }
    memcpy(theirs, magic, sizeof magic);
    theirs[4] = VERSION;
    theirs[5] = server->keyed;
    if (!ag_random(theirs + 8, 16)) {
        return false;
    }
    if (server->keyed) {
        memcpy(theirs + 24, server->key.id, sizeof server->key.id);
    }
    ag_sha256_t hash;
    ag_sha256_init(&hash);
    ag_sha256_update(&hash, mine, record->size);
    ag_sha256_update(&hash, theirs, sizeof theirs);
    ag_sha256_final(&hash, conn->transcript);
    if (!ag_channel_send(&conn->channel, AG_K_CHALLENGE, theirs, sizeof theirs)) {
        return false;
    }
    conn->state = AG_PROOF;
    return server->keyed || greeted(conn);
}

static bool proof(ag_conn_t *conn, const ag_record_t *record)
{
    const ag_key_t *key = &conn->server->key;
    const uint8_t *t = conn->transcript;
    uint8_t wanted[AG_SHA256_BYTES], mine[AG_SHA256_BYTES], to[AG_SHA256_BYTES], from[AG_SHA256_BYTES];
    if (record->kind != AG_K_PROOF) {
        return false;
    }
    ag_derive(key, "tool", t, AG_SHA256_BYTES, wanted);
    if (record->size != sizeof wanted || !ag_same(wanted, record->body, sizeof wanted)) {
        ag_refusal_t refusal;
        (void)ag_refuse(&refusal, AG_KEY, "the key is another one");
        (void)send_refusal(conn, &refusal);
        return false;
    }
    ag_derive(key, "agent", t, AG_SHA256_BYTES, mine);
    if (!ag_channel_send(&conn->channel, AG_K_WELCOME, mine, sizeof mine)) {
        return false;
    }
    ag_derive(key, "from agent", t, AG_SHA256_BYTES, to);
    ag_derive(key, "from tool", t, AG_SHA256_BYTES, from);
    ag_channel_switch(&conn->channel, to, from);
    return greeted(conn);
}

/* ---- requests ---- */

static bool in_use(void *owner, const char *name, uint64_t *announced)
{
    const ag_server_t *server = owner;
    bool found = false;
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        const ag_conn_t *conn = server->conns[i];
        if (conn != NULL && conn->upload.fd >= 0 && strcmp(conn->upload.name, name) == 0) {
            *announced = conn->upload.size;
            found = true;
        }
    }
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        const ag_run_t *run = &server->runs[i];
        found = found || (run->watcher != 0 && strcmp(run->name, name) == 0);
    }
    return found;
}

static bool facts(ag_conn_t *conn)
{
    uint8_t *place = ag_channel_begin(&conn->channel, FACTS_BYTES);
    if (place == NULL) {
        return false;
    }
    size_t n = ag_facts((char *)place, FACTS_BYTES, ag_holder(conn->server));
    ag_channel_end(&conn->channel, AG_K_FACTS, (uint32_t)n);
    return true;
}

static bool expect_bytes(const ag_record_t *record, uint32_t bytes, ag_refusal_t *refusal)
{
    return record->size == bytes ||
           ag_refuse(refusal, AG_REQUEST, "a request of %u bytes, not %u", (unsigned)record->size, (unsigned)bytes);
}

static bool have(ag_conn_t *conn, uint64_t offset)
{
    uint8_t body[8];
    ag_put(body, offset, 8);
    return ag_channel_send(&conn->channel, AG_K_HAVE, body, sizeof body);
}

static bool finish(ag_conn_t *conn, ag_refusal_t *refusal)
{
    bool good = ag_upload_finish(&conn->server->store, &conn->upload, refusal);
    ag_upload_close(&conn->upload);
    conn->state = AG_READY;
    return good && ag_channel_send(&conn->channel, AG_K_STORED, NULL, 0);
}

static bool put(ag_conn_t *conn, const ag_record_t *record, ag_refusal_t *refusal)
{
    if (!expect_bytes(record, PUT_BYTES, refusal)) {
        return false;
    }
    uint64_t size = ag_get(record->body + AG_SHA256_BYTES, 8);
    if (size == 0 || size > MAX_PROGRAM) {
        return ag_refuse(refusal, AG_REQUEST, "a program has at least a byte");
    }
    ag_server_t *server = conn->server;
    if (!ag_hold(conn, refusal)) {
        return false;
    }
    switch (ag_store_put(&server->store, &conn->upload, record->body, size, in_use, server, refusal)) {
    case AG_THERE:
        return have(conn, size);
    case AG_BEGUN:
        conn->state = AG_UPLOAD;
        return have(conn, conn->upload.offset) &&
               (conn->upload.offset < size || finish(conn, refusal));
    default:
        return false;
    }
}

static bool chunk(ag_conn_t *conn, const ag_record_t *record, ag_refusal_t *refusal)
{
    ag_upload_t *up = &conn->upload;
    if (ag_upload_add(up, record->body, record->size, refusal)) {
        return up->offset < up->size || finish(conn, refusal);
    }
    ag_upload_close(up); /* what has come is kept for a next time */
    conn->state = AG_READY;
    return false;
}

static bool serve(ag_conn_t *conn, ag_run_t *run)
{
    conn->run = run;
    conn->state = AG_RUNNING;
    run->lost_ms = 0;
    return ag_channel_send(&conn->channel, AG_K_STARTED, run->id, AG_ID);
}

static bool start(ag_conn_t *conn, const ag_record_t *record, ag_refusal_t *refusal)
{
    ag_server_t *server = conn->server;
    uint8_t head[HEAD_BYTES];
    char buffer[32], name[AG_NAME];
    if (!expect_bytes(record, START_BYTES, refusal) || !ag_hold(conn, refusal)) {
        return false;
    }
    ag_hex(record->body, AG_SHA256_BYTES, name);
    ssize_t n = ag_store_head(&server->store, name, head, sizeof head, refusal);
    if (n < 0) {
        return false;
    }
    const char *other = ag_foreign(head, (size_t)n, buffer, sizeof buffer);
    if (other != NULL) {
        return ag_refuse(refusal, AG_FOREIGN, "the program is for %s, this machine is %s", other, ag_machine());
    }
    uint64_t asked = ag_get(record->body + AG_SHA256_BYTES, 8);
    uint64_t max = server->memory != 0 ? server->memory : ag_free_bytes() / 5u * 4u;
    ag_limits_t limits = {
        .memory = asked != 0 && (max == 0 || asked < max) ? asked : max, .disk = server->disk,
        .cores = ag_get(record->body + AG_SHA256_BYTES + 8u, 8), .root = server->store.root, .via = server->via,
    };
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        ag_run_t *run = &server->runs[i];
        if (run->watcher == 0) {
            memcpy(run->client, conn->client, AG_ID);
            memcpy(run->name, name, sizeof name);
            return ag_run_start(run, &server->store, &limits, refusal) && serve(conn, run);
        }
    }
    return ag_refuse(refusal, AG_BUSY, "%u programs run already", AG_RUNS);
}

static bool attach(ag_conn_t *conn, const ag_record_t *record, ag_refusal_t *refusal)
{
    ag_server_t *server = conn->server;
    if (record->size != AG_ID) {
        return ag_refuse(refusal, AG_REQUEST, "that names no program");
    }
    if (!ag_hold(conn, refusal)) {
        return false;
    }
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        ag_run_t *run = &server->runs[i];
        if (run->watcher != 0 && !run->dropped && ag_same(run->id, record->body, AG_ID) &&
            memcmp(run->client, conn->client, AG_ID) == 0) {
            for (unsigned k = 0; k < AG_CONNECTIONS; ++k) { /* the old connection has not noticed yet */
                if (server->conns[k] != NULL && server->conns[k]->run == run) {
                    ag_conn_close(server->conns[k]);
                }
            }
            return serve(conn, run);
        }
    }
    return ag_refuse(refusal, AG_UNKNOWN, "there is no such program, or no longer");
}

static bool request(ag_conn_t *conn, const ag_record_t *record, ag_refusal_t *refusal)
{
    if (conn->state == AG_UPLOAD && record->kind == AG_K_CHUNK) {
        return chunk(conn, record, refusal);
    }
    switch (record->kind) {
    case AG_K_FACTS:
        return facts(conn);
    case AG_K_PUT:
        return put(conn, record, refusal);
    case AG_K_START:
        return start(conn, record, refusal);
    case AG_K_ATTACH:
        return attach(conn, record, refusal);
    case AG_K_STOP:
    case AG_K_DATA:
    case AG_K_CHUNK:
        return true; /* for a program that has ended, or an upload that was refused, meanwhile */
    default:
        return ag_refuse(refusal, AG_REQUEST, "record %u is no request", record->kind);
    }
}

/* A record for a program that runs. */
static bool to_run(ag_conn_t *conn, const ag_record_t *record)
{
    switch (record->kind) {
    case AG_K_DATA:
        ag_run_give(conn->run, record->body, record->size);
        return true;
    case AG_K_STOP:
        ag_run_stop(conn->run);
        return true;
    }
    return record->kind == AG_K_FACTS && facts(conn);
}

/* Once a program is over, say how it ended. */
static bool conclude(ag_conn_t *conn)
{
    ag_run_t *run = conn->run;
    uint8_t body[sizeof run->outcome + AG_WORDS];
    memcpy(body, run->outcome, sizeof run->outcome);
    memcpy(body + sizeof run->outcome, run->words, run->words_n);
    uint32_t n = (uint32_t)(sizeof run->outcome + run->words_n);
    ag_run_drop(run);
    conn->run = NULL;
    conn->state = AG_READY;
    conn->deadline_ms = ag_now_ms() + IDLE_MS;
    return ag_channel_send(&conn->channel, AG_K_ENDED, body, n);
}

static bool one(ag_conn_t *conn, const ag_record_t *record)
{
    switch (conn->state) {
    case AG_HELLO:
        return hello(conn, record);
    case AG_PROOF:
        return proof(conn, record);
    case AG_RUNNING:
        return to_run(conn, record);
    default:
        break;
    }
    if (conn->state == AG_UPLOAD && record->kind != AG_K_CHUNK) {
        return false; /* an upload is not interrupted */
    }
    ag_refusal_t refusal = {0, ""};
    bool good = request(conn, record, &refusal) || (refusal.why != 0 && send_refusal(conn, &refusal));
    conn->deadline_ms = ag_now_ms() + (conn->state == AG_UPLOAD ? CHUNK_MS : IDLE_MS);
    return good;
}

bool ag_conn_step(ag_conn_t *conn)
{
    for (;;) {
        ag_record_t record;
        if (conn->state == AG_RUNNING && ag_run_is_over(conn->run) && !conclude(conn)) {
            return false;
        }
        if ((conn->run != NULL && conn->run->pending_end - conn->run->pending_at >= AG_BACKLOG) ||
            conn->channel.out.end - conn->channel.out.at >= AG_BACKLOG) {
            return true;
        }
        ag_next_t next = ag_channel_next(&conn->channel, &record);
        if (next == AG_NONE) {
            return true;
        }
        if (next == AG_BROKEN || !one(conn, &record)) {
            return false;
        }
    }
}
