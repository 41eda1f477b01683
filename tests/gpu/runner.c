/* Runs kernels on the first Vulkan device: jobs from standard input, results to standard output, all in 32-bit words.

   A job: words of SPIR-V, operands, words of push constants, group size (3), groups (3), needs, dispatches, barriers,
   submits, start; then for each operand its bytes; the SPIR-V; the numbers; each operand's bytes, padded to whole words.
   A result: the status, the ns of the last dispatch; then, if the status is 0, each operand's bytes, padded.
   All operands of a job lie in one buffer, at multiples of 16 bytes and ``start`` more. The recording has the dispatch so many times,
   every second time with the operands in the opposite order, with a barrier between them if there are any, and is
   submitted so many times. */
#include "sdk_rt_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPIRV, OPERANDS, WORDS, LOCAL, GROUPS = LOCAL + 3, NEEDS = GROUPS + 3, DISPATCHES, BARRIERS, SUBMITS, START, HEAD };

static uint32_t *take(size_t words)
{
    uint32_t *data = calloc(words + 1u, 4u);
    if (data == NULL || fread(data, 4u, words, stdin) != words) {
        fprintf(stderr, "the input ends within a job\n");
        exit(2);
    }
    return data;
}

static void put(const void *data, size_t words)
{
    if (fwrite(data, 4u, words, stdout) != words) {
        exit(2);
    }
}

typedef struct {
    const sdk_gpu_driver_t *driver;
    sdk_gpu_t *gpu;
    sdk_gpu_buffer_t buffer;
    sdk_gpu_kernel_t kernel;
    sdk_gpu_recording_t *recording;
} job_t;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int status_ = (call);                                                                                          \
        if (status_ != SDK_GPU_OK) {                                                                                   \
            return status_;                                                                                            \
        }                                                                                                              \
    } while (0)

static int run(job_t *job, const uint32_t *head, const sdk_gpu_code_t *code, sdk_gpu_range_t *ranges, uint64_t bytes,
               const uint32_t *numbers, uint32_t **data, uint64_t *ns)
{
    const uint32_t groups[3] = {head[GROUPS], head[GROUPS + 1], head[GROUPS + 2]};
    sdk_gpu_range_t back[SDK_GPU_OPERANDS];
    sdk_gpu_t *gpu = job->gpu;
    const sdk_gpu_driver_t *driver = job->driver;
    int timed = gpu->limits.tick_ps != 0u;
    TRY(driver->kernel(gpu, code, NULL, 0u, &job->kernel)); /* which refuses more operands than there may be */
    TRY(driver->buffer(gpu, bytes, &job->buffer));
    TRY(driver->recording(gpu, head[DISPATCHES], timed, &job->recording));
    TRY(driver->record_begin(gpu, job->recording));
    for (uint32_t k = 0; k < head[OPERANDS]; ++k) {
        ranges[k].buffer = job->buffer;
        back[head[OPERANDS] - 1u - k] = ranges[k];
    }
    for (uint32_t k = 0; k < head[DISPATCHES]; ++k) {
        const sdk_gpu_range_t *operands = k % 2u == 0u ? ranges : back;
        if (k > 0u && head[BARRIERS] != 0u) {
            TRY(driver->record_barrier(gpu, job->recording));
        }
        TRY(driver->record_dispatch(gpu, job->recording, code, job->kernel, operands, (const int32_t *)numbers, groups));
    }
    TRY(driver->record_end(gpu, job->recording));
    for (uint32_t k = 0; k < head[OPERANDS]; ++k) {
        TRY(driver->write(gpu, job->buffer, ranges[k].offset, data[k], ranges[k].bytes));
    }
    for (uint32_t k = 0; k < head[SUBMITS]; ++k) {
        TRY(driver->submit(gpu, job->recording));
    }
    TRY(driver->wait(gpu));
    for (uint32_t k = 0; k < head[OPERANDS]; ++k) {
        TRY(driver->read(gpu, job->buffer, ranges[k].offset, data[k], ranges[k].bytes));
    }
    return timed ? driver->times(gpu, job->recording, ns, head[DISPATCHES]) : SDK_GPU_OK;
}

static void one(sdk_gpu_t *gpu, const uint32_t *head)
{
    uint32_t count = head[OPERANDS];
    uint32_t *sizes = take(count), *spirv = take(head[SPIRV]), *numbers = take(head[WORDS] - count);
    uint32_t **data = calloc((size_t)count + 1u, sizeof *data);
    sdk_gpu_range_t *ranges = calloc((size_t)count + 1u, sizeof *ranges);
    uint64_t *ns = calloc((size_t)head[DISPATCHES] + 1u, sizeof *ns);
    uint64_t bytes = head[START];
    if (data == NULL || ranges == NULL || ns == NULL) {
        exit(2);
    }
    for (uint32_t k = 0; k < count; ++k) {
        data[k] = take((sizes[k] + 3u) / 4u);
        ranges[k].offset = bytes;
        ranges[k].bytes = sizes[k];
        bytes += (sizes[k] + 15u) / 16u * 16u + 16u;
    }
    sdk_gpu_code_t code = {"job", NULL, spirv, head[SPIRV], (uint16_t)count, (uint16_t)head[WORDS], 0u,
                           {(uint16_t)head[LOCAL], (uint16_t)head[LOCAL + 1], (uint16_t)head[LOCAL + 2]}, 0u, head[NEEDS],
                           (uint16_t)count, NULL};
    job_t job = {gpu->driver, gpu, 0u, 0u, NULL};
    int status = run(&job, head, &code, ranges, bytes, numbers, data, ns);
    if (status != SDK_GPU_OK) {
        fprintf(stderr, "status %d: %s\n", status, gpu->message);
    }
    int32_t word = status;
    uint32_t last = head[DISPATCHES] > 0u ? (uint32_t)ns[head[DISPATCHES] - 1u] : 0u;
    put(&word, 1u);
    put(&last, 1u);
    for (uint32_t k = 0; status == SDK_GPU_OK && k < count; ++k) {
        put(data[k], (sizes[k] + 3u) / 4u);
    }
    if (job.recording != NULL) {
        gpu->driver->free_recording(gpu, job.recording);
    }
    if (job.kernel != 0u) {
        gpu->driver->free_kernel(gpu, job.kernel);
    }
    if (job.buffer != 0u) {
        gpu->driver->free_buffer(gpu, job.buffer);
    }
    for (uint32_t k = 0; k < count; ++k) {
        free(data[k]);
    }
    free(data);
    free(ranges);
    free(ns);
    free(sizes);
    free(spirv);
    free(numbers);
}

int main(void)
{
    char message[512] = "";
    sdk_gpu_t *gpu = NULL;
    sdk_gpu_device_t devices[4];
    sdk_gpu_limits_t limits[4];
    uint32_t head[HEAD], count = 0u;
    if (sdk_gpu_list_vulkan(devices, limits, 4u, &count, message) != SDK_GPU_OK || count == 0u) {
        fprintf(stderr, "no device: %s\n", message);
        return 1;
    }
    if (sdk_gpu_open_vulkan(-1, &gpu, message) != SDK_GPU_OK || gpu == NULL) {
        fprintf(stderr, "cannot open: %s\n", message);
        return 1;
    }
    fprintf(stderr, "device: %s, %s, %s\n", gpu->device.name, gpu->device.driver, devices[0].name);
    while (fread(head, 4u, HEAD, stdin) == HEAD) {
        one(gpu, head);
    }
    gpu->driver->close(gpu);
    return 0;
}
