/* The agent as a program: requests on standard input, answers on standard output, until the input ends. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sdk_rt_agent.h"

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

int main(void)
{
    static sdk_rt_agent_t agent;
    static uint8_t bytes[65536];
    sdk_rt_agent_init(&agent, NULL);
    for (;;) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return 1;
        }
        for (ssize_t i = 0; i < n; ++i) {
            sdk_rt_agent_feed(&agent, bytes[i]);
        }
    }
}
