/* The thread pool: helpers watch a gate, take indices one by one, and sleep when nothing comes. */
#define _POSIX_C_SOURCE 200809L

#include "sdk_rt_pool.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#define OPEN 0x80000000u
#define WATCH 4000 /* looks at the gate before a helper sleeps: some 50 us */
#define PATIENCE 2000 /* looks at the helpers before the caller lets others run */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void work(sdk_rt_pool_t *pool, int32_t worker)
{
    for (;;) {
        int32_t index = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (index >= pool->count) {
            return;
        }
        pool->task(pool->arg, index, worker);
    }
}

/* Enters the gate while it is open: from then on the caller waits for this helper. */
static bool enter(sdk_rt_pool_t *pool)
{
    uint32_t gate = __atomic_load_n(&pool->gate, __ATOMIC_ACQUIRE);
    while ((gate & OPEN) != 0u) {
        if (__atomic_compare_exchange_n(&pool->gate, &gate, gate + 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

/* Whether there is an index to take: only a hint, until the gate is entered. */
static bool ready(const sdk_rt_pool_t *pool)
{
    bool open = (__atomic_load_n(&pool->gate, __ATOMIC_ACQUIRE) & OPEN) != 0u;
    return open && __atomic_load_n(&pool->next, __ATOMIC_RELAXED) < __atomic_load_n(&pool->count, __ATOMIC_RELAXED);
}

/* Waits until the gate opens; false when the pool ends. */
static bool await(sdk_rt_pool_t *pool)
{
    for (int32_t i = 0; i < WATCH; ++i) {
        if (ready(pool)) {
            return true;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    __atomic_fetch_add(&pool->asleep, 1, __ATOMIC_SEQ_CST);
    while (!pool->stop && (__atomic_load_n(&pool->gate, __ATOMIC_SEQ_CST) & OPEN) == 0u) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    __atomic_fetch_sub(&pool->asleep, 1, __ATOMIC_SEQ_CST);
    bool more = !pool->stop;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

static void *help(void *arg)
{
    sdk_rt_pool_t *pool = arg;
    int32_t worker = __atomic_add_fetch(&pool->joining, 1, __ATOMIC_RELAXED);
    while (await(pool)) {
        if (enter(pool)) {
            work(pool, worker);
            __atomic_fetch_sub(&pool->gate, 1u, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

int32_t sdk_rt_pool_start(sdk_rt_pool_t *pool, int32_t threads)
{
    memset(pool, 0, sizeof *pool);
    pool->threads = 1;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        return 1;
    }
    if (pthread_cond_init(&pool->wake, NULL) != 0) {
        pthread_mutex_destroy(&pool->lock);
        return 1;
    }
    while (pool->threads < threads && pool->threads < SDK_RT_POOL_MOST) {
        if (pthread_create(&pool->helpers[pool->threads - 1], NULL, help, pool) != 0) {
            break;
        }
        ++pool->threads;
    }
    return pool->threads;
}

void sdk_rt_pool_run(void *user, int32_t count, void (*task)(void *arg, int32_t index, int32_t worker), void *arg)
{
    sdk_rt_pool_t *pool = user;
    pool->task = task;
    pool->arg = arg;
    __atomic_store_n(&pool->count, count, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->gate, OPEN, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
    work(pool, 0);
    __atomic_fetch_and(&pool->gate, ~OPEN, __ATOMIC_ACQ_REL);
    for (int32_t i = 0; __atomic_load_n(&pool->gate, __ATOMIC_ACQUIRE) != 0u; ++i) {
        if (i < PATIENCE) {
            relax();
        } else {
            sched_yield();
        }
    }
}

void sdk_rt_pool_stop(sdk_rt_pool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i + 1 < pool->threads; ++i) {
        pthread_join(pool->helpers[i], NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pool->threads = 1;
}
