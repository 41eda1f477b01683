/*
 * A plugin for QEMU that counts what a machine executes, without a byte of it in the image.
 *
 * The image says what it works on by stores into an array of bytes: a store to marks[k] starts phase k, and phase 0 is
 * not counted. Of each block of code the plugin counts, by phase, how often it ran and how often each of the first two
 * blocks that ever ran next did: enough to count instructions exactly and to estimate cycles from their kinds and from
 * which branches were taken, which the host does, with the image at hand. (QEMU's size of an instruction cannot be used
 * for that: the last one before a page's end may be too long by what was looked at behind it.)
 *
 * Declares what it uses of QEMU's plugin interface itself, so that no header of a certain version is needed to build it.
 *
 * Arguments: marks=ADDRESS, phases=N, out=FILE, and watch=FIRST:END for each range of code that stores marks.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef QEMU_PLUGIN_API
#error "define QEMU_PLUGIN_API: the version of the plugin interface of the QEMU at hand"
#endif

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*tb_trans_t)(plugin_id id, struct qemu_plugin_tb *tb);
typedef void (*exec_t)(unsigned cpu, void *data);
typedef void (*store_t)(unsigned cpu, uint32_t info, uint64_t address, void *data);
typedef void (*exit_t)(plugin_id id, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, tb_trans_t f);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_t f, int flags, void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, store_t f, int flags, int rw, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id, exit_t f, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

#define STORES 2 /* of the accesses that a callback can watch */
#define SLOTS 4096u

#define NEXT 2u /* blocks behind a block that are told apart */
#define COUNTS (1u + NEXT)

/* A block: its code, the blocks that ran next, and by phase how often it ran and each of those did. */
typedef struct block {
    uint64_t start;
    size_t insns;
    struct block *chain;
    const struct block *next[NEXT];
    uint64_t counts[];
} block_t;

typedef struct {
    uint64_t first, end;
} range_t;

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_API;

static block_t *blocks[SLOTS];
static range_t watched[64];
static unsigned watch_count;
static uint64_t marks;
static uint64_t phases;
static uint64_t phase, last_phase;
static block_t *last;
static char out_path[4096];

static block_t *block_of(uint64_t start, size_t insns)
{
    block_t **slot = &blocks[(start >> 1) % SLOTS];
    for (block_t *b = *slot; b != NULL; b = b->chain) {
        if (b->start == start && b->insns == insns) {
            return b;
        }
    }
    block_t *b = calloc(1, sizeof *b + COUNTS * phases * sizeof b->counts[0]);
    if (b == NULL) {
        abort();
    }
    b->start = start;
    b->insns = insns;
    b->chain = *slot;
    *slot = b;
    return b;
}

static void executed(unsigned cpu, void *data)
{
    (void)cpu;
    block_t *b = data;
    if (last != NULL) {
        for (unsigned i = 0; i < NEXT; ++i) {
            if (last->next[i] == NULL) {
                last->next[i] = b;
            }
            if (last->next[i] == b) {
                ++last->counts[COUNTS * last_phase + 1 + i];
                break;
            }
        }
    }
    ++b->counts[COUNTS * phase];
    last = b;
    last_phase = phase;
}

static void stored(unsigned cpu, uint32_t info, uint64_t address, void *data)
{
    (void)cpu;
    (void)info;
    (void)data;
    if (address - marks < phases) {
        phase = address - marks;
    }
}

static bool is_watched(uint64_t address)
{
    for (unsigned i = 0; i < watch_count; ++i) {
        if (address >= watched[i].first && address < watched[i].end) {
            return true;
        }
    }
    return false;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    if (count == 0) {
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        if (is_watched(qemu_plugin_insn_vaddr(insn))) {
            qemu_plugin_register_vcpu_mem_cb(insn, stored, 0, STORES, NULL);
        }
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block_of(qemu_plugin_tb_vaddr(tb), count));
}

/* A line for each block and phase: phase, address, instructions, times run, then address and times of what ran next. */
static void finished(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    FILE *out = fopen(out_path, "w");
    if (out == NULL) {
        return;
    }
    for (unsigned i = 0; i < SLOTS; ++i) {
        for (const block_t *b = blocks[i]; b != NULL; b = b->chain) {
            for (uint64_t p = 1; p < phases; ++p) {
                const uint64_t *counts = &b->counts[COUNTS * p];
                if (counts[0] == 0) {
                    continue;
                }
                fprintf(out, "%" PRIu64 " %" PRIu64 " %zu %" PRIu64, p, b->start, b->insns, counts[0]);
                for (unsigned k = 0; k < NEXT && b->next[k] != NULL; ++k) {
                    fprintf(out, " %" PRIu64 " %" PRIu64, b->next[k]->start, counts[1 + k]);
                }
                fputc('\n', out);
            }
        }
    }
    fputs("end\n", out);
    fclose(out);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; ++i) {
        char *value = strchr(argv[i], '=');
        if (value == NULL) {
            return -1;
        }
        ++value;
        if (strncmp(argv[i], "marks=", 6) == 0) {
            marks = strtoull(value, NULL, 0);
        } else if (strncmp(argv[i], "phases=", 7) == 0) {
            phases = strtoull(value, NULL, 0);
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            if ((size_t)snprintf(out_path, sizeof out_path, "%s", value) >= sizeof out_path) {
                return -1;
            }
        } else if (strncmp(argv[i], "watch=", 6) == 0 && watch_count < sizeof watched / sizeof watched[0]) {
            char *end;
            watched[watch_count].first = strtoull(value, &end, 0);
            watched[watch_count].end = strtoull(*end == ':' ? end + 1 : end, NULL, 0);
            ++watch_count;
        } else {
            return -1;
        }
    }
    if (phases == 0 || out_path[0] == '\0') {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
