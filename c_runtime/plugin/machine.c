/*
 * What runs at every instruction of an image under Unicorn: the count of instructions, which is the machine's clock; the
 * limits at which it stops; the stack's guard; and, where the image is profiled, counts by phase (blocks.h). Unicorn calls
 * nobody for an instruction of Thumb whose condition fails, but a core spends its time on it: so blocks are counted.
 *
 * Unicorn calls these functions; the host loads the library beside it, sets the fields of sdk_machine, and models all else.
 */
#include "blocks.h"

#include <stdbool.h>
#include <string.h>

#define MARKING_MAX 4u
#define MARKS_STEP 64u
#define CODE_MAX 4096u /* bytes of a block; Unicorn ends them at a page */

typedef int (*read_memory_t)(void *uc, uint64_t address, void *bytes, uint64_t size);
typedef int (*write_memory_t)(void *uc, uint64_t address, const void *bytes, uint64_t size);
typedef int (*read_register_t)(void *uc, int number, void *value);
typedef int (*stop_t)(void *uc);

typedef struct {
    uint64_t instructions; /* in all blocks that began, the last of which need not have ended */
    uint64_t steps;        /* instructions that began: those of Thumb whose condition fails do not */
    uint64_t stop_at;      /* steps before the next of which the machine stops */
    uint64_t pc;           /* of the last instruction that began */
    uint64_t block;        /* where the last block begins */
    uint64_t block_end;    /* and what is behind it */
    uint64_t guard;        /* first address of the stack's guard */
    uint64_t guard_bytes;  /* its size, 0 while there is none */
    uint64_t guarded;      /* where the stack pointer was when it had passed the guard's end */
    uint64_t sp;           /* Unicorn's number of the stack pointer */
    uint32_t guard_hit;    /* whether it has */
    uint32_t riscv;        /* the instruction set is RISC-V, not Thumb */
    uint64_t marks;        /* address of the marks, a byte for each phase */
    uint64_t phases;       /* how many there are, 0 where nothing is counted by phase */
    uint64_t marking[MARKING_MAX][2]; /* first address and end of the code whose stores are marks */
    stop_t stop;
    read_memory_t read_memory;
    write_memory_t write_memory;
    read_register_t read_register;
} machine_t;

__attribute__((visibility("default"))) machine_t sdk_machine;

typedef void code_hook_t(void *uc, uint64_t address, uint32_t size, void *data);

__attribute__((visibility("default"))) code_hook_t sdk_on_instruction, sdk_on_block;
__attribute__((visibility("default"))) void sdk_write_blocks(const char *path);
__attribute__((visibility("default"))) uint64_t sdk_executed(void *uc);
__attribute__((visibility("default"))) void sdk_settle(void *uc);

void sdk_on_instruction(void *uc, uint64_t address, uint32_t size, void *data)
{
    (void)size;
    (void)data;
    if (sdk_machine.steps >= sdk_machine.stop_at) {
        sdk_machine.stop(uc);
        return;
    }
    sdk_machine.pc = address;
    ++sdk_machine.steps;
}

/* Whether the block that ran last stores marks. */
static bool has_marked(void)
{
    for (unsigned i = 0; i < MARKING_MAX; ++i) {
        if (sdk_machine.block >= sdk_machine.marking[i][0] && sdk_machine.block < sdk_machine.marking[i][1]) {
            return true;
        }
    }
    return false;
}

/* Takes the mark that the last block has stored, if any: a block stores one at most. Not by a hook of accesses to memory,
 * with which Unicorn computes otherwise. */
static void take_mark(void *uc)
{
    static const uint8_t none = 0;
    uint8_t marks[MARKS_STEP];
    for (uint64_t at = 0; at < sdk_machine.phases; at += MARKS_STEP) {
        uint64_t left = sdk_machine.phases - at, size = left < MARKS_STEP ? left : MARKS_STEP;
        if (sdk_machine.read_memory(uc, sdk_machine.marks + at, marks, size) != 0) {
            return;
        }
        for (uint64_t k = 0; k < size; ++k) {
            if (marks[k] != 0) {
                phase = at + k;
                (void)sdk_machine.write_memory(uc, sdk_machine.marks + phase, &none, 1);
                return;
            }
        }
    }
}

/* Bytes of the instruction that begins with these 16 bits. */
static unsigned length(uint16_t head)
{
    bool is_long = sdk_machine.riscv ? (head & 3u) == 3u : head >= 0xE800u;
    return is_long ? 4u : 2u;
}

static size_t instructions_in(void *uc, uint64_t address, uint32_t size)
{
    uint8_t code[CODE_MAX];
    size_t count = 0;
    if (size > sizeof code || sdk_machine.read_memory(uc, address, code, size) != 0) {
        return 0;
    }
    for (uint32_t at = 0; at + 2u <= size; ++count) {
        at += length((uint16_t)(code[at] | code[at + 1u] << 8));
    }
    return count;
}

/* Blocks by address and bytes, as Unicorn names them; a slot remembers the last that fell on it. */
void sdk_on_block(void *uc, uint64_t address, uint32_t size, void *data)
{
    static struct {
        uint64_t address;
        uint32_t size;
        block_t *block;
    } known[SLOTS];
    (void)data;
    unsigned slot = (unsigned)(address >> 1) % SLOTS;
    if (known[slot].block == NULL || known[slot].address != address || known[slot].size != size) {
        phases = sdk_machine.phases;
        known[slot].address = address;
        known[slot].size = size;
        known[slot].block = block_of(address, instructions_in(uc, address, size));
        if (known[slot].block == NULL) {
            sdk_machine.stop_at = 0;
            sdk_machine.stop(uc);
            return;
        }
    }
    if (phases != 0 && has_marked()) {
        take_mark(uc);
    }
    /* no hook of accesses here either */
    if (sdk_machine.guard_bytes != 0 && !sdk_machine.guard_hit) {
        uint32_t sp = 0;
        int failed = sdk_machine.read_register(uc, (int)sdk_machine.sp, &sp);
        if (failed == 0 && sp < sdk_machine.guard + sdk_machine.guard_bytes) {
            sdk_machine.guard_hit = 1;
            sdk_machine.guarded = sp;
            sdk_machine.stop(uc);
        }
    }
    sdk_machine.instructions += known[slot].block->insns;
    sdk_machine.block = address;
    sdk_machine.block_end = address + size;
    if (phases != 0) {
        count_block(known[slot].block);
    }
}

/* Instructions executed, the one at work included. */
uint64_t sdk_executed(void *uc)
{
    uint64_t at = sdk_machine.pc, end = sdk_machine.block_end, left = 0;
    if (at >= sdk_machine.block && at < end) {
        left = instructions_in(uc, at, (uint32_t)(end - at)) - 1u;
    }
    return sdk_machine.instructions - left;
}

/* The block at work will not be ended: what is left of it was not executed. */
void sdk_settle(void *uc)
{
    sdk_machine.instructions = sdk_executed(uc);
    sdk_machine.block_end = sdk_machine.block;
}

void sdk_write_blocks(const char *path)
{
    write_blocks(path);
}
