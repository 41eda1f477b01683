/* What every driver has in common: arguments are checked here, once. */
#include "sdk_rt_gpu.h"

#include <stdio.h>
#include <string.h>

static int refused(sdk_gpu_t *gpu, const char *what)
{
    if (gpu != NULL) {
        snprintf(gpu->message, sizeof gpu->message, "%s", what);
    }
    return SDK_GPU_E_ARG;
}

void sdk_gpu_close(sdk_gpu_t *gpu)
{
    if (gpu != NULL) {
        gpu->driver->close(gpu);
    }
}

int sdk_gpu_buffer(sdk_gpu_t *gpu, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    if (gpu == NULL || out == NULL) {
        return refused(gpu, "a buffer needs a device and a place for its handle");
    }
    *out = 0u;
    if (gpu->limits.allocation_bytes != 0u && bytes > gpu->limits.allocation_bytes) {
        snprintf(gpu->message, sizeof gpu->message, "%s: a buffer of %llu bytes, at most %llu are allowed", gpu->device.name,
                 (unsigned long long)bytes, (unsigned long long)gpu->limits.allocation_bytes);
        return SDK_GPU_E_LIMIT;
    }
    return gpu->driver->buffer(gpu, bytes == 0u ? 4u : bytes, out);
}

int sdk_gpu_share(sdk_gpu_t *gpu, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    if (gpu == NULL || memory == NULL || out == NULL) {
        return refused(gpu, "a buffer needs a device and a place for its handle");
    }
    *out = 0u;
    if (!gpu->limits.shared_memory || bytes == 0u || (uintptr_t)memory % SDK_GPU_SHARED_ALIGN != 0u ||
        (gpu->limits.allocation_bytes != 0u && bytes > gpu->limits.allocation_bytes)) {
        return SDK_GPU_E_LIMIT;
    }
    return gpu->driver->share(gpu, memory, bytes, out);
}

int sdk_gpu_turn(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host)
{
    return gpu == NULL || buffer == 0u ? SDK_GPU_E_ARG : gpu->driver->turn(gpu, buffer, memory, bytes, to_host);
}

void sdk_gpu_free_buffer(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer)
{
    if (gpu != NULL && buffer != 0u) {
        gpu->driver->free_buffer(gpu, buffer);
    }
}

int sdk_gpu_write(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    if (gpu == NULL || buffer == 0u || (data == NULL && bytes != 0u)) {
        return refused(gpu, "a copy to the device needs a buffer and data");
    }
    return bytes == 0u ? SDK_GPU_OK : gpu->driver->write(gpu, buffer, offset, data, bytes);
}

int sdk_gpu_read(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, void *data, uint64_t bytes)
{
    if (gpu == NULL || buffer == 0u || (data == NULL && bytes != 0u)) {
        return refused(gpu, "a copy from the device needs a buffer and a place for data");
    }
    return bytes == 0u ? SDK_GPU_OK : gpu->driver->read(gpu, buffer, offset, data, bytes);
}

void sdk_gpu_keep_in(sdk_gpu_t *gpu, const char *folder)
{
    if (gpu != NULL) {
        gpu->folder = folder;
    }
}

int sdk_gpu_kernel(sdk_gpu_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out)
{
    if (gpu == NULL || code == NULL || out == NULL) {
        return refused(gpu, "kernels need a device, code and places for their handles");
    }
    *out = 0u;
    return gpu->driver->kernel(gpu, code, kept, bytes, out);
}

int sdk_gpu_kernels(sdk_gpu_t *gpu, const sdk_gpu_code_t *codes, uint32_t count, sdk_gpu_kernel_t *out)
{
    char message[sizeof gpu->message];
    int first = SDK_GPU_OK;
    for (uint32_t k = 0; out != NULL && k < count; ++k) {
        out[k] = 0u;
    }
    for (uint32_t k = 0; k < count; ++k) {
        const int status = sdk_gpu_kernel(gpu, codes == NULL ? NULL : codes + k, NULL, 0u, out == NULL ? NULL : out + k);
        if (status != SDK_GPU_OK && status != SDK_GPU_E_BUILD && status != SDK_GPU_E_LIMIT) {
            return status;
        }
        if (status != SDK_GPU_OK && first == SDK_GPU_OK) {
            first = status;
            memcpy(message, gpu->message, sizeof message);
        }
    }
    if (first != SDK_GPU_OK) {
        memcpy(gpu->message, message, sizeof message);
    }
    return first;
}

int sdk_gpu_binary(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel, void *out, size_t *bytes)
{
    if (gpu == NULL || kernel == 0u || bytes == NULL) {
        return refused(gpu, "a compiled kernel needs a kernel and a place for its size");
    }
    return gpu->driver->binary(gpu, kernel, out, bytes);
}

void sdk_gpu_free_kernel(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel)
{
    if (gpu != NULL && kernel != 0u) {
        gpu->driver->free_kernel(gpu, kernel);
    }
}

int sdk_gpu_recording(sdk_gpu_t *gpu, uint32_t dispatches, int timed, sdk_gpu_recording_t **out)
{
    if (gpu == NULL || out == NULL) {
        return refused(gpu, "a recording needs a device and a place for it");
    }
    *out = NULL;
    return gpu->driver->recording(gpu, dispatches, timed, out);
}

void sdk_gpu_free_recording(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    if (gpu != NULL && recording != NULL) {
        gpu->driver->free_recording(gpu, recording);
    }
}

int sdk_gpu_record_begin(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    return gpu == NULL || recording == NULL ? refused(gpu, "no recording") : gpu->driver->record_begin(gpu, recording);
}

int sdk_gpu_record_dispatch(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                            sdk_gpu_kernel_t kernel, const sdk_gpu_range_t *operands, const int32_t *numbers,
                            const uint32_t groups[3])
{
    if (gpu == NULL || recording == NULL || code == NULL || kernel == 0u || groups == NULL) {
        return refused(gpu, "a dispatch needs a recording, a kernel and its grid");
    }
    for (int k = 0; k < 3; ++k) {
        if (gpu->limits.groups[k] != 0u && groups[k] > gpu->limits.groups[k]) {
            snprintf(gpu->message, sizeof gpu->message, "%s: %s wants %lu groups on axis %d, at most %lu are allowed",
                     gpu->device.name, code->name, (unsigned long)groups[k], k, (unsigned long)gpu->limits.groups[k]);
            return SDK_GPU_E_LIMIT;
        }
    }
    return gpu->driver->record_dispatch(gpu, recording, code, kernel, operands, numbers, groups);
}

int sdk_gpu_record_barrier(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    return gpu == NULL || recording == NULL ? refused(gpu, "no recording") : gpu->driver->record_barrier(gpu, recording);
}

int sdk_gpu_record_end(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    return gpu == NULL || recording == NULL ? refused(gpu, "no recording") : gpu->driver->record_end(gpu, recording);
}

int sdk_gpu_submit(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    return gpu == NULL || recording == NULL ? refused(gpu, "no recording") : gpu->driver->submit(gpu, recording);
}

int sdk_gpu_wait(sdk_gpu_t *gpu)
{
    return gpu == NULL ? SDK_GPU_E_ARG : gpu->driver->wait(gpu);
}

int sdk_gpu_times(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count)
{
    if (gpu == NULL || recording == NULL || (ns == NULL && count != 0u)) {
        return refused(gpu, "times need a recording and a place for them");
    }
    return gpu->driver->times(gpu, recording, ns, count);
}
