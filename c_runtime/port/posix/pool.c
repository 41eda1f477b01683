/* The thread pool: helpers watch for work, take indices one by one, and sleep when none come. Lines that processors take
   from each other are what a short run costs, so that work is one word, and the caller has the first index anyway. */
#define _POSIX_C_SOURCE 200809L

#include "sdk_rt_pool.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#define WATCH 4000 /* looks for work before a helper sleeps: some 50 us */
#define PATIENCE 2000 /* looks at what is done before the caller lets others run */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool left(uint64_t work)
{
    return (uint32_t)work < (uint32_t)(work >> 32);
}

/* Runs indices until there are none; how many. Who was late may take one of the next run: its task was set before. */
static int32_t help_out(sdk_rt_pool_t *pool, int32_t worker)
{
    int32_t count = 0;
    while (left(__atomic_load_n(&pool->work, __ATOMIC_RELAXED))) {
        const uint64_t taken = __atomic_fetch_add(&pool->work, 1, __ATOMIC_ACQ_REL);
        if (left(taken)) {
            pool->task(pool->arg, (int32_t)(uint32_t)taken, worker);
            ++count;
            if (worker != 0) {
                __atomic_fetch_add(&pool->done, 1, __ATOMIC_RELEASE);
            }
        }
    }
    return count;
}

/* Waits until there is work; false when the pool ends. */
static bool await(sdk_rt_pool_t *pool)
{
    for (int32_t i = 0; i < WATCH; ++i) {
        if (left(__atomic_load_n(&pool->work, __ATOMIC_RELAXED))) {
            return true;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    __atomic_fetch_add(&pool->asleep, 1, __ATOMIC_SEQ_CST);
    while (!pool->stop && !left(__atomic_load_n(&pool->work, __ATOMIC_SEQ_CST))) {
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
        (void)help_out(pool, worker);
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
    while (pool->threads < threads && pool->threads < SDK_RT_POOL_MAX) {
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
    if (count < 1) {
        return;
    }
    pool->task = task;
    pool->arg = arg;
    __atomic_store_n(&pool->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->work, (uint64_t)(uint32_t)count << 32 | 1u, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
    task(arg, 0, 0);
    const int32_t theirs = count - 1 - help_out(pool, 0);
    for (int32_t i = 0; __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE) != theirs; ++i) {
        if (i < PATIENCE) {
            relax();
        } else {
            sched_yield();
            i = PATIENCE;
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
