/* The agent as a program: requests on standard input, answers on standard output, until the input ends. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sdk_rt.h"
#include "sdk_rt_agent.h"
#include "sdk_rt_pool.h"

#ifndef SDK_RT_DEVICE_NAME
#define SDK_RT_DEVICE_NAME "host"
#endif

const sdk_rt_port_facts_t sdk_rt_port_facts = {SDK_RT_DEVICE_NAME, 1000000000u, SDK_RT_COUNTER_TIME};

void sdk_rt_port_write(const uint8_t *bytes, uint32_t n)
{
    while (n != 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done < 0 && errno != EINTR) {
            exit(1); /* the host is gone */
        }
        if (done > 0) {
            bytes += done;
            n -= (uint32_t)done;
        }
    }
}

static struct {
    uint8_t bytes[65536];
    size_t at, end;
} input;

/* Take what there is; false where there is nothing and the input does not wait. Ends the program with the input. */
static bool take(void)
{
    ssize_t n;
    do {
        n = read(STDIN_FILENO, input.bytes, sizeof input.bytes);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        exit(n < 0); /* the host is gone: nobody waits for the rest of a series of runs either */
    }
    input.at = 0;
    input.end = (size_t)n;
    return true;
}

/* Whether there may be input, after at most so many milliseconds (-1: for ever). */
static bool await(int milliseconds)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
#if defined(__wasi__)
    if (milliseconds == 0) {
        return true; /* Node does not look where it is not to wait, but its input can be told to say that it is empty */
    }
#endif
    return poll(&in, 1, milliseconds) > 0;
}

static void refill(void)
{
    while (!take()) {
        (void)await(-1);
    }
}

int sdk_rt_port_read(void)
{
    if (input.at == input.end && !(await(0) && take())) {
        return -1;
    }
    return input.bytes[input.at++];
}

uint64_t sdk_rt_port_ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t sdk_rt_port_stack_bytes(void)
{
    return 0;
}

uint32_t sdk_rt_port_stack_used(void)
{
    return 0;
}

void sdk_rt_port_reset(void)
{
    exit(0);
}

/* Gives the models that can use them as many threads as they were built for. */
static void share_work(void)
{
    static sdk_rt_pool_t pool;
    int32_t max = 1;
    for (uint16_t i = 0; i < sdk_rt_model_count; ++i) {
        if (sdk_rt_models[i]->set_parallel != NULL && sdk_rt_models[i]->threads > max) {
            max = sdk_rt_models[i]->threads;
        }
    }
    int32_t have = max > 1 ? sdk_rt_pool_start(&pool, max) : 1;
    for (uint16_t i = 0; have > 1 && i < sdk_rt_model_count; ++i) {
        const sdk_rt_model_t *model = sdk_rt_models[i];
        if (model->set_parallel != NULL && model->threads >= have) { /* it has memory for every worker */
            (void)model->set_parallel(sdk_rt_pool_run, &pool, have);
        }
    }
}

int main(void)
{
    static sdk_rt_agent_t agent;
#if defined(__wasi__)
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
#endif
    sdk_rt_agent_init(&agent, NULL);
    share_work();
    for (;;) {
        refill();
        while (input.at < input.end) { /* an answer may need more of the input */
            sdk_rt_agent_feed(&agent, input.bytes[input.at++]);
        }
    }
}
