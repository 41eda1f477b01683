/*
 * A plugin for QEMU that counts what a machine executes, without a byte of it in the image.
 *
 * The image says what it works on by stores into an array of bytes: a store to marks[k] starts phase k, and phase 0 is
 * not counted (blocks.h). Instructions are counted, not bytes: QEMU's size of an instruction cannot be used, the last one
 * before a page's end may be too long by what was looked at behind it.
 *
 * Declares what it uses of QEMU's plugin interface itself, so that no header of a certain version is needed to build it.
 *
 * Arguments: marks=ADDRESS, phases=N, out=FILE, and watch=FIRST:END for each range of code that stores marks.
 */
#include "blocks.h"

#include <stdbool.h>
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
typedef struct {
    uint64_t first, end;
} range_t;

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_API;

static range_t watched[64];
static unsigned watch_count;
static uint64_t marks;
static char out_path[4096];

static void executed(unsigned cpu, void *data)
{
    (void)cpu;
    count_block(data);
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
    block_t *b = block_of(qemu_plugin_tb_vaddr(tb), count);
    if (b == NULL) {
        abort();
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, b);
}

static void finished(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    write_blocks(out_path);
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
