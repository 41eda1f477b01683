/* A pool of POSIX threads that share the work of a run: what <model>_set_parallel takes. */
#ifndef SDK_RT_POOL_H
#define SDK_RT_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SDK_RT_POOL_MAX 64 /* threads of a pool */

/* Private, except that the caller owns its memory. One run at a time uses a pool. */
typedef struct {
    int32_t threads;
    bool stop;
    int32_t joining; /* numbers the helpers as they start */
    int32_t asleep;  /* helpers that wait for wake */
    uint64_t work;   /* how many indices there are in the upper half, the next to run in the lower */
    void (*task)(void *arg, int32_t index, int32_t worker);
    void *arg;
    uint8_t apart[64]; /* the caller looks at another line than its helpers */
    int32_t done;      /* indices that helpers have run */
    uint8_t behind[64];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t helpers[SDK_RT_POOL_MAX - 1];
} sdk_rt_pool_t;

/* Starts a pool of so many threads, the caller's own included; returns how many there are, at least 1. */
int32_t sdk_rt_pool_start(sdk_rt_pool_t *pool, int32_t threads);

/* Runs task(arg, index, worker) for every index in 0..count; returns when all are done. It allocates nothing. Helpers
   watch for work for some 50 us after a run, then sleep. */
void sdk_rt_pool_run(void *pool, int32_t count, void (*task)(void *arg, int32_t index, int32_t worker), void *arg);

/* Ends the threads of a pool. */
void sdk_rt_pool_stop(sdk_rt_pool_t *pool);

#ifdef __cplusplus
}
#endif

#endif /* SDK_RT_POOL_H */
