/* Measures what a GPU does at most: multiply-adds of floats in registers, bytes read from memory. The kernels are those of
   gpu_peak.py, of which the first writes `out` and the second reads `in`. Prints both, by microsecond, and the device. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include "sdk_rt_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRIES 3
#define MIN_NS 20000000u /* that a measurement lasts, where the device has room for so many work items */

extern const sdk_gpu_code_t peak_gpu_codes[];

static sdk_gpu_t *gpu;
static sdk_gpu_kernel_t kernels[2];
static sdk_gpu_buffer_t out, in;

static int failed(const char *message)
{
    printf("%s\n", message);
    return 1;
}

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* The ns of the quickest run of kernel k by so many items; 0 where one fails. */
static uint64_t quickest(uint32_t k, uint32_t items)
{
    const int timed = gpu->limits.tick_ps != 0u;
    const sdk_gpu_range_t ranges[] = {{out, 0u, 4u * (uint64_t)items}, {in, 0u, PEAK_BYTES}};
    const sdk_gpu_range_t read[] = {ranges[1], ranges[0]};
    const int32_t numbers[] = {(int32_t)items};
    const uint32_t groups[3] = {items / peak_gpu_codes[k].local[0], 1u, 1u};
    sdk_gpu_recording_t *recording = NULL;
    uint64_t best = 0u;
    int status = sdk_gpu_recording(gpu, 1u, timed, &recording);
    status = status == SDK_GPU_OK ? sdk_gpu_record_begin(gpu, recording) : status;
    if (status == SDK_GPU_OK) {
        status = sdk_gpu_record_dispatch(gpu, recording, &peak_gpu_codes[k], kernels[k], k == 0u ? ranges : read, numbers, groups);
    }
    status = status == SDK_GPU_OK ? sdk_gpu_record_end(gpu, recording) : status;
    for (int one = 0; one <= TRIES && status == SDK_GPU_OK; ++one) {
        const uint64_t began = now();
        uint64_t took = 0u;
        status = sdk_gpu_submit(gpu, recording);
        status = status == SDK_GPU_OK ? sdk_gpu_wait(gpu) : status;
        if (!timed || (status == SDK_GPU_OK && sdk_gpu_times(gpu, recording, &took, 1u) != SDK_GPU_OK)) {
            took = now() - began;
        }
        best = one > 0 && (best == 0u || took < best) ? took : best; /* the first is to wake the device */
    }
    sdk_gpu_free_recording(gpu, recording);
    return status == SDK_GPU_OK ? best : 0u;
}

int main(void)
{
    static char message[512];
    const char *const number = getenv("SDK_GPU_DEVICE");
    uint64_t took = 0u, read;
    uint32_t items = PEAK_FEWEST;
    if (PEAK_OPEN(number == NULL ? -1 : (int32_t)atoi(number), &gpu, message) != SDK_GPU_OK) {
        return failed(message);
    }
    if (sdk_gpu_kernels(gpu, peak_gpu_codes, 2u, kernels) != SDK_GPU_OK ||
        sdk_gpu_buffer(gpu, 4u * (uint64_t)PEAK_MAX, &out) != SDK_GPU_OK || sdk_gpu_buffer(gpu, PEAK_BYTES, &in) != SDK_GPU_OK) {
        return failed(gpu->message);
    }
    for (;; items *= 4u) {
        took = quickest(0u, items);
        if (took == 0u) {
            return failed(gpu->message);
        }
        if (took >= MIN_NS || items * 4u > PEAK_MAX) {
            break;
        }
    }
    read = quickest(1u, PEAK_READERS);
    if (read == 0u) {
        return failed(gpu->message);
    }
    printf("%.6g %.6g %s\n", (double)items * PEAK_MACS / (double)took * 1e3, (double)PEAK_BYTES / (double)read * 1e3,
           gpu->device.name);
    sdk_gpu_close(gpu);
    return 0;
}
