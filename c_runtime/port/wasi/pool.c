/* Threads of a page and of Node: workers whose instances have one memory share the work of a run. What the model's
   set_parallel takes is the address that sdk_rt_web_parallel gives. */
#include <stdbool.h>
#include <stdint.h>

#define OPEN 0x80000000u
#define WATCH 4000 /* looks at the gate before a helper sleeps */
#define PATIENCE 2000 /* looks at the helpers before the caller sleeps a little */
#define NAP 50000 /* nanoseconds */

typedef void (*sdk_rt_task_t)(void *arg, int32_t index, int32_t worker);

/* In the memory that all share. One run at a time uses it. */
static struct {
    int gate;        /* bit 31: there is work; below: helpers that are at it */
    int32_t asleep;  /* helpers that wait for the gate to change */
    int32_t next;    /* index to run next */
    int32_t count;
    int32_t broken;  /* a helper ended */
    sdk_rt_task_t task;
    void *arg;
} pool;

uintptr_t sdk_rt_web_parallel(void);
void sdk_rt_web_help(int32_t worker);
void sdk_rt_web_broken(void);

static uint32_t gate(void)
{
    return (uint32_t)__atomic_load_n(&pool.gate, __ATOMIC_SEQ_CST);
}

static void work(int32_t worker)
{
    for (;;) {
        int32_t index = __atomic_fetch_add(&pool.next, 1, __ATOMIC_RELAXED);
        if (index >= pool.count) {
            return;
        }
        pool.task(pool.arg, index, worker);
    }
}

/* Enters the gate while it is open and an index is left: from then on the caller waits for this helper. */
static bool enter(void)
{
    int seen = (int)gate();
    while (((uint32_t)seen & OPEN) != 0u
           && __atomic_load_n(&pool.next, __ATOMIC_RELAXED) < __atomic_load_n(&pool.count, __ATOMIC_RELAXED)) {
        if (__atomic_compare_exchange_n(&pool.gate, &seen, seen + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return true;
        }
    }
    return false;
}

/* A worker's: helps with every run from now on, and does not return. */
void sdk_rt_web_help(int32_t worker)
{
    for (int32_t looks = 0;; ++looks) {
        if (enter()) {
            work(worker);
            __atomic_fetch_sub(&pool.gate, 1, __ATOMIC_SEQ_CST);
            looks = 0;
        } else if (looks >= WATCH) {
            __atomic_fetch_add(&pool.asleep, 1, __ATOMIC_SEQ_CST);
            int seen = (int)gate();
            if (((uint32_t)seen & OPEN) == 0u) {
                __builtin_wasm_memory_atomic_wait32(&pool.gate, seen, -1); /* not where it has changed since */
            }
            __atomic_fetch_sub(&pool.asleep, 1, __ATOMIC_SEQ_CST);
            looks = 0;
        }
    }
}

/* A worker that ended in a trap says so: the run that it was at must not wait for it. */
void sdk_rt_web_broken(void)
{
    __atomic_store_n(&pool.broken, 1, __ATOMIC_SEQ_CST);
}

static void run(void *user, int32_t count, sdk_rt_task_t task, void *arg)
{
    (void)user;
    pool.task = task;
    pool.arg = arg;
    __atomic_store_n(&pool.count, count, __ATOMIC_RELAXED);
    __atomic_store_n(&pool.next, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool.gate, (int)OPEN, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.asleep, __ATOMIC_SEQ_CST) != 0) {
        __builtin_wasm_memory_atomic_notify(&pool.gate, UINT32_MAX);
    }
    work(0);
    __atomic_fetch_and(&pool.gate, (int)~OPEN, __ATOMIC_SEQ_CST);
    for (int32_t looks = 0; gate() != 0u; ++looks) {
        if (__atomic_load_n(&pool.broken, __ATOMIC_SEQ_CST) != 0) {
            __builtin_trap();
        }
        if (looks >= PATIENCE) {
            int seen = (int)gate();
            __builtin_wasm_memory_atomic_wait32(&pool.gate, seen, seen == 0 ? 0 : NAP);
        }
    }
}

uintptr_t sdk_rt_web_parallel(void)
{
    return (uintptr_t)run;
}
