/* What is kept of a model in a folder: the kernels as the driver has compiled them, and their verdicts. A file is of one
   device, driver and program; one that is not whole, or of others, is thrown away. */
#include "sdk_rt_gpu_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (256l << 20) /* of a file: more is damage */
#define STARTS 2u               /* that end over a kernel in a row: one may have been ended from outside */

/* The start of a file; then a part_t for each kernel, then their bytes. All as this processor has it in memory. */
typedef struct {
    char magic[8];
    uint64_t key[2], sum; /* sum: of all that follows */
    uint32_t count, bytes;
} head_t;

typedef struct {
    uint32_t bytes, verdict;
} part_t;

static const char MAGIC[8] = "sdkgpu1";

/* FNV-1a, 64 bits. */
static uint64_t hashed(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *const from = data;
    for (size_t k = 0; k < bytes; ++k) {
        hash = (hash ^ from[k]) * 0x100000001B3u;
    }
    return hash;
}

/* Of all that a compiled kernel or a verdict may depend on. */
static uint64_t key_of(const sdk_gpu_model_t *model, uint64_t hash)
{
    const sdk_gpu_plans_t *const plans = model->plans;
    const sdk_gpu_t *const gpu = model->gpu;
    sdk_gpu_limits_t limits;
    memcpy(&limits, &gpu->limits, sizeof limits); /* with what lies between its members */
    limits.memory_bytes = 0u;                     /* of PoCL what is free just now; nothing depends on it */
    hash = hashed(hash, gpu->driver->name, strlen(gpu->driver->name));
    hash = hashed(hash, &gpu->device, sizeof gpu->device);
    hash = hashed(hash, &limits, sizeof limits);
    hash = hashed(hash, plans->hash, strlen(plans->hash));
    for (uint32_t k = 0; k < plans->code_count; ++k) {
        const sdk_gpu_code_t *const code = &plans->codes[k];
        const uint32_t facts[] = {code->operands, code->words, code->local[0], code->local[1], code->local[2], code->local_bytes};
        hash = hashed(hash, code->name, strlen(code->name));
        hash = hashed(hash, facts, sizeof facts);
        hash = code->text == NULL ? hash : hashed(hash, code->text, strlen(code->text));
        hash = hashed(hash, code->spirv, 4u * (size_t)code->spirv_words);
    }
    return hash;
}

/* The path of a file with this ending; 0 where there is no folder, or no room for the path. */
static int path_of(const sdk_gpu_model_t *model, const char *ending, char path[1024])
{
    const int length = model->gpu->folder == NULL ? -1
                                                  : snprintf(path, 1024u, "%s/%.64s-%016llx.%s", model->gpu->folder,
                                                             model->plans->name, (unsigned long long)model->key[0], ending);
    return length > 0 && length < 1024;
}

/* The bytes of a file; NULL where there is none, or it cannot be read whole. */
static uint8_t *contents(const char *path, size_t *bytes)
{
    FILE *const file = fopen(path, "rb");
    uint8_t *data = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0l, SEEK_END) == 0) {
        size = ftell(file);
    }
    if (size >= 0 && size <= MAX_BYTES && fseek(file, 0l, SEEK_SET) == 0) {
        data = malloc((size_t)size + 1u);
    }
    if (data != NULL && fread(data, 1u, (size_t)size, file) != (size_t)size) {
        free(data);
        data = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    *bytes = data == NULL ? 0u : (size_t)size;
    return data;
}

/* Whether a file is whole and of this model, device and driver. */
static int whole(const sdk_gpu_model_t *model, const uint8_t *data, size_t bytes)
{
    const uint32_t count = model->plans->code_count;
    head_t head;
    uint64_t sum = 0u;
    if (bytes < sizeof head + count * sizeof(part_t)) {
        return 0;
    }
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || memcmp(head.key, model->key, sizeof head.key) != 0 ||
        head.count != count || head.bytes != bytes - sizeof head ||
        head.sum != hashed(model->key[1], data + sizeof head, head.bytes)) {
        return 0;
    }
    for (uint32_t k = 0; k < count; ++k) {
        part_t part;
        memcpy(&part, data + sizeof head + k * sizeof part, sizeof part);
        sum += part.bytes;
        if (part.verdict > SDK_GPU_CRASHED) {
            return 0;
        }
    }
    return sum == head.bytes - count * sizeof(part_t);
}

void sdk_gpu_model_forget(sdk_gpu_model_t *model)
{
    char path[1024];
    if (path_of(model, "gpu", path)) {
        remove(path);
    }
    free(model->kept);
    model->kept = NULL;
    memset(model->verdicts, 0, model->plans->code_count);
}

void sdk_gpu_model_load(sdk_gpu_model_t *model)
{
    const uint32_t count = model->plans->code_count;
    char path[1024];
    size_t bytes = 0u, tried = 0u;
    uint8_t *began;
    model->key[0] = key_of(model, 0xCBF29CE484222325u);
    model->key[1] = key_of(model, 0x9E3779B97F4A7C15u);
    if (!path_of(model, "gpu", path)) {
        return;
    }
    model->kept = contents(path, &bytes);
    (void)path_of(model, "trying", path);
    began = contents(path, &tried);
    if (model->kept != NULL && (began != NULL || !whole(model, model->kept, bytes))) {
        sdk_gpu_model_forget(model); /* damaged, or a start with it never ended */
        tried = 0u;
    }
    for (uint32_t k = 0; model->kept != NULL && k < count; ++k) {
        part_t part;
        memcpy(&part, model->kept + sizeof(head_t) + k * sizeof part, sizeof part);
        model->verdicts[k] = (uint8_t)part.verdict;
    }
    for (size_t at = 0u; at + 4u <= tried; at += 4u) {
        uint32_t k;
        memcpy(&k, began + at, sizeof k);
        if (k < count && ++model->ended[k] >= STARTS) {
            model->ended[k] = STARTS;
            model->verdicts[k] = SDK_GPU_CRASHED;
        }
    }
    free(began);
}

const uint8_t *sdk_gpu_model_kept(const sdk_gpu_model_t *model, uint32_t kernel, size_t *bytes)
{
    const uint8_t *at = model->kept;
    part_t part = {0u, 0u};
    *bytes = 0u;
    if (at == NULL) {
        return NULL;
    }
    at += sizeof(head_t) + model->plans->code_count * sizeof part;
    for (uint32_t k = 0; k <= kernel; ++k) {
        at += part.bytes;
        memcpy(&part, model->kept + sizeof(head_t) + k * sizeof part, sizeof part);
    }
    *bytes = part.bytes;
    return part.bytes == 0u ? NULL : at;
}

void sdk_gpu_model_trying(sdk_gpu_model_t *model, uint32_t kernel)
{
    char path[1024];
    FILE *const file = path_of(model, "trying", path) ? fopen(path, "wb") : NULL;
    model->trying = kernel;
    if (file == NULL) {
        return;
    }
    for (uint32_t k = 0; k < model->plans->code_count; ++k) {
        for (uint32_t n = model->ended[k] + (k == kernel ? 1u : 0u); n > 0u; --n) { /* a word for each start */
            fwrite(&k, sizeof k, 1u, file);
        }
    }
    fclose(file);
}

void sdk_gpu_model_tried(sdk_gpu_model_t *model, int lost)
{
    char path[1024];
    if (lost && model->trying < model->plans->code_count) { /* who loses the device over a kernel does not meet it again */
        model->ended[model->trying] = STARTS;
        sdk_gpu_model_trying(model, model->trying);
    } else if (path_of(model, "trying", path)) {
        remove(path);
    }
}

void sdk_gpu_model_save(sdk_gpu_model_t *model)
{
    const uint32_t count = model->plans->code_count;
    const size_t start = sizeof(head_t) + count * sizeof(part_t);
    char path[1024], made[1024];
    head_t head;
    size_t bytes = start, at = start;
    uint8_t *data;
    FILE *file;
    if (!path_of(model, "gpu", path) || !path_of(model, "new", made)) {
        return;
    }
    for (uint32_t k = 0; k < count; ++k) {
        size_t one = 0u;
        if (model->kernels[k] != 0u && sdk_gpu_binary(model->gpu, model->kernels[k], NULL, &one) == SDK_GPU_OK) {
            bytes += one;
        }
    }
    data = bytes > (size_t)MAX_BYTES ? NULL : calloc(1u, bytes);
    if (data == NULL) {
        return;
    }
    for (uint32_t k = 0; k < count; ++k) {
        part_t part = {0u, model->verdicts[k]};
        size_t one = bytes - at;
        if (model->kernels[k] != 0u && model->verdicts[k] == SDK_GPU_RUNS &&
            sdk_gpu_binary(model->gpu, model->kernels[k], data + at, &one) == SDK_GPU_OK) {
            part.bytes = (uint32_t)one;
        }
        memcpy(data + sizeof head + k * sizeof part, &part, sizeof part);
        at += part.bytes;
    }
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    memcpy(head.key, model->key, sizeof head.key);
    head.count = count;
    head.bytes = (uint32_t)(at - sizeof head);
    head.sum = hashed(model->key[1], data + sizeof head, head.bytes);
    memcpy(data, &head, sizeof head);
    file = fopen(made, "wb");
    if (file != NULL) {
        const int written = fwrite(data, 1u, at, file) == at;
        if (fclose(file) != 0 || !written || (remove(path), rename(made, path)) != 0) {
            remove(made);
        }
    }
    free(data);
}
