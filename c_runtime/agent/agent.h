/*
 * The agent as a program of its own: what `sdk agent` does (SPEC.md, "The channel to an agent"), for machines without
 * Python. One process serves all connections; each program runs under a process that watches it.
 */
#ifndef AG_AGENT_H
#define AG_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "channel.h"
#include "sha256.h"

#define AG_CONNECTIONS 64u
#define AG_UNPROVEN 32u
#define AG_RUNS 8u
#define AG_BACKLOG (1u << 20) /* bytes kept for a side that does not take them; then the other one waits */
#define AG_WORDS 2000u        /* bytes of a program's standard error */
#define AG_NAME 65u           /* of a program: its hash in hexadecimal */
#define AG_LABEL 64u
#define AG_ID 16u
#define AG_TEXT 200u

enum { AG_VERSION_OTHER = 1, AG_KEY, AG_REQUEST, AG_BUSY, AG_ROOM, AG_DAMAGED, AG_UNKNOWN, AG_FOREIGN, AG_PLACE };
enum { AG_EXITED, AG_SIGNAL, AG_MEMORY, AG_DISK, AG_NOT_STARTED, AG_STOPPED, AG_PROCESSES };

/* Why a request is refused. */
typedef struct {
    uint8_t why;
    char text[AG_TEXT + 1u];
} ag_refusal_t;

/* Fills a refusal; returns false, for callers to return. */
bool ag_refuse(ag_refusal_t *refusal, uint8_t why, const char *format, ...) __attribute__((format(printf, 3, 4)));

uint64_t ag_now_ms(void);

/* ---- keys ---- */

typedef struct {
    uint8_t secret[AG_SHA256_BYTES];
    uint8_t id[8];
} ag_key_t;

/* The key of a code as people type it; false where it is none. */
bool ag_key_of_code(ag_key_t *key, const char *code);
/* A new code, in groups; false where the system has no random numbers. */
bool ag_new_code(char code[24]);
/* 32 bytes for a purpose and what both sides have said. */
void ag_derive(const ag_key_t *key, const char *purpose, const uint8_t *transcript, size_t n, uint8_t *out);
bool ag_random(uint8_t *out, size_t n);

/* ---- the folder ---- */

typedef struct {
    const char *root;
    uint64_t quota;
    int programs, runs; /* folders */
} ag_store_t;

typedef struct {
    int fd; /* -1: none is under way */
    uint64_t offset, size;
    uint8_t digest[AG_SHA256_BYTES];
    char name[AG_NAME];
    ag_sha256_t hash;
} ag_upload_t;

typedef enum { AG_BEGUN, AG_THERE, AG_REFUSED } ag_put_t;

/* Whether a program of this name must stay, of what is announced of it so many bytes. */
typedef bool (*ag_in_use_t)(void *owner, const char *name, uint64_t *announced);

bool ag_store_open(ag_store_t *store, ag_refusal_t *refusal);
ag_put_t ag_store_put(ag_store_t *store, ag_upload_t *up, const uint8_t *digest, uint64_t size, ag_in_use_t in_use,
                      void *owner, ag_refusal_t *refusal);
bool ag_upload_add(ag_upload_t *up, const uint8_t *data, size_t n, ag_refusal_t *refusal);
bool ag_upload_finish(ag_store_t *store, ag_upload_t *up, ag_refusal_t *refusal);
void ag_upload_close(ag_upload_t *up);
/* The first bytes of a program; how many there are, or -1. */
ssize_t ag_store_head(ag_store_t *store, const char *name, uint8_t *head, size_t n, ag_refusal_t *refusal);
void ag_hex(const uint8_t *bytes, size_t n, char *out);
/* Remove a folder below another, and all that is in it; links are removed, not followed. */
void ag_remove_tree(int at, const char *name);

/* ---- programs that run ---- */

typedef struct {
    uint8_t id[AG_ID], client[AG_ID];
    char name[AG_NAME];
    pid_t watcher; /* 0: there is no run here */
    int in, out, err, report, lifeline;
    uint8_t *pending; /* what the program has not taken yet */
    size_t pending_at, pending_end, pending_cap;
    uint8_t words[AG_WORDS];
    size_t words_n;
    uint8_t outcome[21]; /* of ENDED */
    bool ended;          /* the outcome is there */
    bool dropped;        /* nobody wants it any more: to be ended and forgotten */
    uint64_t lost_ms;    /* when its connection was lost; 0: it has one */
    uint64_t kill_ms;    /* when a watcher that does not end is killed */
} ag_run_t;

typedef struct {
    uint64_t memory, disk, cores;
    const char *root, *via;
} ag_limits_t;

bool ag_run_start(ag_run_t *run, ag_store_t *store, const ag_limits_t *limits, ag_refusal_t *refusal);
void ag_run_give(ag_run_t *run, const uint8_t *data, size_t n);
void ag_run_feed(ag_run_t *run);
void ag_run_listen(ag_run_t *run);
void ag_run_conclude(ag_run_t *run);
void ag_run_stop(ag_run_t *run);
/* Let go of it; its watcher ends by itself, and is awaited by ag_run_reap. */
void ag_run_drop(ag_run_t *run);
/* Whether a dropped run is no more; kills its watcher where that takes too long. */
bool ag_run_reap(ag_run_t *run);
bool ag_run_is_over(const ag_run_t *run);

/* What the watcher does: runs a program, and reports how it ended. Never returns. */
typedef struct {
    const char *program, *via, *folder;
    int folders, report, lifeline;
    uint64_t memory, disk, cores;
} ag_watch_t;
void ag_watch(const ag_watch_t *watch) __attribute__((noreturn));

/* ---- the machine ---- */

/* The body of FACTS; its length. */
size_t ag_facts(char *out, size_t room, const char *used_by);
uint64_t ag_free_bytes(void);
/* For which machine a program is, where that is another one than this; NULL where it runs here. */
const char *ag_foreign(const uint8_t *head, size_t n, char *buffer, size_t room);
const char *ag_machine(void);

/* ---- the server ---- */

typedef struct ag_conn ag_conn_t;

typedef struct {
    ag_key_t key;
    bool keyed, local, stdio;
    uint64_t memory, disk;
    const char *via;
    ag_store_t store;
    int listener, lock;
    bool locked;
    ag_conn_t *conns[AG_CONNECTIONS];
    ag_run_t runs[AG_RUNS];
    uint8_t holder[AG_ID];
    char label[AG_LABEL + 1u];
    bool has_holder;
    uint64_t arrivals;
    volatile int *stop;
} ag_server_t;

typedef enum { AG_HELLO, AG_PROOF, AG_READY, AG_UPLOAD, AG_RUNNING } ag_state_t;

struct ag_conn {
    ag_server_t *server;
    int in, out;
    ag_channel_t channel;
    ag_state_t state;
    uint64_t number, deadline_ms;
    uint8_t client[AG_ID];
    char label[AG_LABEL + 1u];
    bool holds;
    uint8_t transcript[AG_SHA256_BYTES];
    ag_upload_t upload;
    ag_run_t *run;
};

ag_conn_t *ag_conn_open(ag_server_t *server, int in, int out);
/* Do what the records that have come ask for; false where the connection is to be closed. */
bool ag_conn_step(ag_conn_t *conn);
bool ag_conn_expired(ag_conn_t *conn);
void ag_conn_close(ag_conn_t *conn);
/* Have the machine for a tool alone. */
bool ag_hold(ag_conn_t *conn, ag_refusal_t *refusal);
const char *ag_holder(ag_server_t *server);
/* Give up what keeps agents of other processes out, once nobody holds this one. */
void ag_release(ag_server_t *server);
int ag_serve(ag_server_t *server);

#endif
