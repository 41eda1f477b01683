/* Kernels and recordings of the Vulkan driver. */
#include "sdk_rt_gpu_vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- kernels ------------------------------------------------------------------------------------------------------- */

/* Why a device cannot run a kernel; NULL where it can. */
static const char *beyond(const sdk_vk_t *gpu, const sdk_gpu_code_t *code)
{
    const sdk_gpu_limits_t *limits = &gpu->base.limits;
    uint32_t has = (limits->f16 ? SDK_GPU_NEEDS_F16 : 0u) | (limits->f64 ? SDK_GPU_NEEDS_F64 : 0u) |
                   (limits->i64 ? SDK_GPU_NEEDS_I64 : 0u) | (limits->dot ? SDK_GPU_NEEDS_DOT : 0u) |
                   (limits->bytes ? SDK_GPU_NEEDS_BYTES : 0u);
    if ((code->needs & ~has) != 0u) {
        return "a type or an instruction that the device does not have";
    }
    if (code->bound > limits->operands || code->bound > code->operands || code->operands > SDK_GPU_OPERANDS) {
        return "more buffers than the device allows";
    }
    if (code->words > SDK_GPU_WORDS || code->words < code->operands) {
        return "more numbers than the device allows";
    }
    if (code->local_bytes > limits->local_bytes) {
        return "more shared memory than the device has";
    }
    uint64_t items = 1u;
    for (int k = 0; k < 3; ++k) {
        if (code->local[k] == 0u || code->local[k] > limits->group[k]) {
            return "a larger group than the device allows";
        }
        items *= code->local[k];
    }
    return items > limits->group_items ? "a larger group than the device allows" : NULL;
}

static void unmake_kernel(sdk_vk_t *gpu, sdk_vk_kernel_t *kernel)
{
    if (kernel->pipeline != 0u) {
        gpu->vk.DestroyPipeline(gpu->device, kernel->pipeline, NULL);
    }
    if (kernel->layout != 0u) {
        gpu->vk.DestroyPipelineLayout(gpu->device, kernel->layout, NULL);
    }
    if (kernel->cache != 0u) {
        gpu->vk.DestroyPipelineCache(gpu->device, kernel->cache, NULL);
    }
    if (kernel->set_layout != 0u) {
        gpu->vk.DestroyDescriptorSetLayout(gpu->device, kernel->set_layout, NULL);
    }
    free(kernel);
}

static int make_layouts(sdk_vk_t *gpu, const sdk_gpu_code_t *code, sdk_vk_kernel_t *kernel)
{
    vk_binding_t bindings[SDK_GPU_OPERANDS];
    for (uint32_t k = 0; k < code->bound; ++k) {
        bindings[k] = (vk_binding_t){k, VK_DESCRIPTOR_STORAGE_BUFFER, 1u, VK_STAGE_COMPUTE, NULL};
    }
    vk_set_layout_info_t sets = {VKS_SET_LAYOUT, NULL, 0u, code->bound, bindings};
    int result = gpu->vk.CreateDescriptorSetLayout(gpu->device, &sets, NULL, &kernel->set_layout);
    int status = sdk_vk_check(gpu, result, "vkCreateDescriptorSetLayout");
    if (status != SDK_GPU_OK) {
        return status;
    }
    vk_push_range_t push = {VK_STAGE_COMPUTE, 0u, 4u * code->words};
    vk_layout_info_t layout = {VKS_PIPELINE_LAYOUT, NULL, 0u, 1u, &kernel->set_layout, code->words > 0u, &push};
    return sdk_vk_check(gpu, gpu->vk.CreatePipelineLayout(gpu->device, &layout, NULL, &kernel->layout),
                        "vkCreatePipelineLayout");
}

/* A cache for the pipeline of one kernel, where its contents were kept or are to be. */
static int make_cache(sdk_vk_t *gpu, const void *kept, size_t bytes, sdk_vk_kernel_t *kernel)
{
    vk_cache_info_t info = {VKS_PIPELINE_CACHE, NULL, 0u, kept == NULL ? 0u : bytes, kept};
    if (gpu->base.folder == NULL) {
        return SDK_GPU_OK;
    }
    int result = gpu->vk.CreatePipelineCache(gpu->device, &info, NULL, &kernel->cache);
    return sdk_vk_check(gpu, result, "vkCreatePipelineCache");
}

static int make_kernel(sdk_vk_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_vk_kernel_t *kernel)
{
    static const vk_special_t specials[3] = {{0u, 0u, 4u}, {1u, 4u, 4u}, {2u, 8u, 4u}};
    uint32_t local[3] = {code->local[0], code->local[1], code->local[2]};
    vk_specials_t special = {3u, specials, sizeof local, local};
    vk_handle_t module = 0u;
    int status = make_cache(gpu, kept, bytes, kernel);
    status = status == SDK_GPU_OK ? make_layouts(gpu, code, kernel) : status;
    if (status != SDK_GPU_OK) {
        return status;
    }
    vk_module_info_t info = {VKS_SHADER_MODULE, NULL, 0u, 4u * (size_t)code->spirv_words, code->spirv};
    int result = gpu->vk.CreateShaderModule(gpu->device, &info, NULL, &module);
    status = sdk_vk_check(gpu, result, "vkCreateShaderModule");
    if (status != SDK_GPU_OK) {
        return status;
    }
    vk_stage_info_t stage = {VKS_SHADER_STAGE, NULL, 0u, VK_STAGE_COMPUTE, module, "main", &special};
    vk_pipeline_info_t pipeline = {VKS_COMPUTE_PIPELINE, NULL, 0u, stage, kernel->layout, 0u, -1};
    result = gpu->vk.CreateComputePipelines(gpu->device, kernel->cache, 1u, &pipeline, NULL, &kernel->pipeline);
    status = sdk_vk_check(gpu, result, "vkCreateComputePipelines");
    gpu->vk.DestroyShaderModule(gpu->device, module, NULL);
    return status == SDK_GPU_OK && kernel->pipeline == 0u ? SDK_GPU_E_BUILD : status;
}

int sdk_vk_kernel(sdk_gpu_t *base, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    const char *why = beyond(gpu, code);
    if (code->spirv == NULL || code->spirv_words == 0u) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "%s has no SPIR-V", code->name);
        return SDK_GPU_E_BUILD;
    }
    if (why != NULL) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "%s: %s wants %s", gpu->base.device.name, code->name, why);
        return SDK_GPU_E_LIMIT;
    }
    sdk_vk_kernel_t *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "memory of the host is out");
        return SDK_GPU_E_MEMORY;
    }
    int status = make_kernel(gpu, code, kept, bytes, kernel);
    if (status != SDK_GPU_OK) {
        unmake_kernel(gpu, kernel);
        char told[256];
        snprintf(told, sizeof told, "%.255s", gpu->base.message);
        snprintf(gpu->base.message, sizeof gpu->base.message, "%s: %s", code->name, told);
        return status == SDK_GPU_E_LOST || status == SDK_GPU_E_MEMORY ? status : SDK_GPU_E_BUILD;
    }
    kernel->next = gpu->kernels;
    gpu->kernels = kernel;
    *out = (sdk_gpu_kernel_t)(uintptr_t)kernel;
    return SDK_GPU_OK;
}

int sdk_vk_binary(sdk_gpu_t *base, sdk_gpu_kernel_t kernel, void *out, size_t *bytes)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    const vk_handle_t cache = ((sdk_vk_kernel_t *)(uintptr_t)kernel)->cache;
    if (cache == 0u) {
        *bytes = 0u;
        return SDK_GPU_OK;
    }
    return sdk_vk_check(gpu, gpu->vk.GetPipelineCacheData(gpu->device, cache, bytes, out), "vkGetPipelineCacheData");
}

void sdk_vk_free_kernel(sdk_gpu_t *base, sdk_gpu_kernel_t handle)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    for (sdk_vk_kernel_t **at = &gpu->kernels; *at != NULL; at = &(*at)->next) {
        if ((sdk_gpu_kernel_t)(uintptr_t)*at == handle) {
            sdk_vk_kernel_t *found = *at;
            *at = found->next;
            (void)sdk_vk_wait(base);
            unmake_kernel(gpu, found);
            return;
        }
    }
}

/* --- recordings ---------------------------------------------------------------------------------------------------- */

static void unmake_recording(sdk_vk_t *gpu, sdk_gpu_recording_t *recording)
{
    if (recording->commands != NULL) {
        gpu->vk.FreeCommandBuffers(gpu->device, gpu->pool, 1u, &recording->commands);
    }
    if (recording->queries != 0u) {
        gpu->vk.DestroyQueryPool(gpu->device, recording->queries, NULL);
    }
    if (recording->descriptors != 0u) {
        gpu->vk.DestroyDescriptorPool(gpu->device, recording->descriptors, NULL);
    }
    free(recording->ran);
    free(recording);
}

static int make_recording(sdk_vk_t *gpu, uint32_t room, int timed, sdk_gpu_recording_t *made)
{
    made->room = room;
    made->ran = calloc(room, sizeof *made->ran);
    if (made->ran == NULL) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "memory of the host is out");
        return SDK_GPU_E_MEMORY;
    }
    vk_pool_size_t size = {VK_DESCRIPTOR_STORAGE_BUFFER, room * SDK_GPU_OPERANDS};
    vk_pool_info_t pool = {VKS_DESCRIPTOR_POOL, NULL, 0u, room, 1u, &size};
    int result = gpu->vk.CreateDescriptorPool(gpu->device, &pool, NULL, &made->descriptors);
    int status = sdk_vk_check(gpu, result, "vkCreateDescriptorPool");
    vk_command_info_t commands = {VKS_COMMAND_ALLOCATE, NULL, gpu->pool, 0u, 1u};
    if (status == SDK_GPU_OK) {
        result = gpu->vk.AllocateCommandBuffers(gpu->device, &commands, &made->commands);
        status = sdk_vk_check(gpu, result, "vkAllocateCommandBuffers");
    }
    vk_query_info_t queries = {VKS_QUERY_POOL, NULL, 0u, VK_QUERY_TIMESTAMP, 2u * room, 0u};
    if (status == SDK_GPU_OK && timed) {
        result = gpu->vk.CreateQueryPool(gpu->device, &queries, NULL, &made->queries);
        status = sdk_vk_check(gpu, result, "vkCreateQueryPool");
    }
    return status;
}

int sdk_vk_recording(sdk_gpu_t *base, uint32_t dispatches, int timed, sdk_gpu_recording_t **out)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    if (timed && gpu->stamp_bits == 0u) {
        snprintf(base->message, sizeof base->message, "%s has no time stamps", base->device.name);
        return SDK_GPU_E_LIMIT;
    }
    if (dispatches > (1u << 20)) {
        snprintf(base->message, sizeof base->message, "a recording of %lu dispatches", (unsigned long)dispatches);
        return SDK_GPU_E_LIMIT;
    }
    sdk_gpu_recording_t *made = calloc(1, sizeof *made);
    int status = SDK_GPU_E_MEMORY;
    if (made != NULL) {
        status = make_recording(gpu, dispatches == 0u ? 1u : dispatches, timed, made);
        if (status != SDK_GPU_OK) {
            unmake_recording(gpu, made);
            return status;
        }
        made->next = gpu->recordings;
        gpu->recordings = made;
        *out = made;
    } else {
        snprintf(base->message, sizeof base->message, "memory of the host is out");
    }
    return status;
}

void sdk_vk_free_recording(sdk_gpu_t *base, sdk_gpu_recording_t *recording)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    for (sdk_gpu_recording_t **at = &gpu->recordings; *at != NULL; at = &(*at)->next) {
        if (*at == recording) {
            *at = recording->next;
            (void)sdk_vk_wait(base);
            unmake_recording(gpu, recording);
            return;
        }
    }
}

int sdk_vk_record_begin(sdk_gpu_t *base, sdk_gpu_recording_t *recording)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    int status = recording->pending ? sdk_vk_wait(base) : SDK_GPU_OK;
    vk_begin_info_t begin = {VKS_COMMAND_BEGIN, NULL, 0u, NULL};
    if (status == SDK_GPU_OK) {
        int result = gpu->vk.ResetDescriptorPool(gpu->device, recording->descriptors, 0u);
        status = sdk_vk_check(gpu, result, "vkResetDescriptorPool");
    }
    if (status == SDK_GPU_OK) {
        int result = gpu->vk.BeginCommandBuffer(recording->commands, &begin); /* which resets it */
        status = sdk_vk_check(gpu, result, "vkBeginCommandBuffer");
    }
    if (status != SDK_GPU_OK) {
        return status;
    }
    recording->used = 0u;
    memset(recording->ran, 0, recording->room);
    if (recording->queries != 0u) {
        gpu->vk.CmdResetQueryPool(recording->commands, recording->queries, 0u, 2u * recording->room);
    }
    vk_barrier_t before = {VKS_MEMORY_BARRIER, NULL, VK_SHADER_WRITE | VK_TRANSFER_WRITE | VK_HOST_WRITE,
                           VK_SHADER_READ | VK_SHADER_WRITE};
    gpu->vk.CmdPipelineBarrier(recording->commands, VK_AT_COMPUTE | VK_AT_TRANSFER | VK_AT_HOST, VK_AT_COMPUTE, 0u, 1u,
                               &before, 0u, NULL, 0u, NULL);
    return SDK_GPU_OK;
}

/* Binds the operands of a dispatch: a range that begins where the device allows one, or all of a buffer that several
   share, and the bytes up to the operand. */
static int bind(sdk_vk_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code, const sdk_vk_kernel_t *kernel,
                const sdk_gpu_range_t *operands, int32_t *words)
{
    vk_buffer_range_t ranges[SDK_GPU_OPERANDS];
    vk_write_t writes[SDK_GPU_OPERANDS];
    const uint64_t max = gpu->base.limits.buffer_bytes;
    vk_handle_t set = 0u;
    memset(ranges, 0, sizeof ranges);
    for (uint32_t k = 0; k < code->operands; ++k) {
        const uint32_t at = code->bindings == NULL ? k : code->bindings[k];
        const sdk_vk_buffer_t *buffer = (const sdk_vk_buffer_t *)(uintptr_t)operands[k].buffer;
        uint64_t offset = operands[k].offset, bytes = operands[k].bytes;
        if (buffer == NULL || offset > buffer->bytes || bytes > buffer->bytes - offset) {
            snprintf(gpu->base.message, sizeof gpu->base.message, "operand %u of %s leaves its buffer", k, code->name);
            return SDK_GPU_E_ARG;
        }
        if (at >= code->bound || (ranges[at].buffer != 0u && ranges[at].buffer != buffer->buffer)) {
            snprintf(gpu->base.message, sizeof gpu->base.message, "operand %u of %s is in a buffer of its own", k, code->name);
            return SDK_GPU_E_ARG;
        }
        const uint64_t whole = buffer->first + buffer->bytes;
        offset += buffer->first;
        if (code->bindings != NULL && (offset + bytes > max || offset > INT32_MAX)) {
            snprintf(gpu->base.message, sizeof gpu->base.message, "operand %u of %s lies beyond the %llu bytes of a binding", k,
                     code->name, (unsigned long long)max);
            return SDK_GPU_E_LIMIT;
        }
        if (code->bindings != NULL) {
            words[k] = (int32_t)offset;
            ranges[at] = (vk_buffer_range_t){buffer->buffer, 0u, whole < max ? whole : max};
            continue;
        }
        uint64_t start = offset / gpu->alignment * gpu->alignment;
        start = start < whole ? start : 0u; /* an operand of no bytes at the end: anything may be bound */
        uint64_t range = (offset + bytes - start + 15u) & ~(uint64_t)15u;
        range = range > whole - start ? whole - start : range;
        range = range == 0u ? 16u : range;
        if (range > max) {
            snprintf(gpu->base.message, sizeof gpu->base.message, "operand %u of %s has %llu bytes, %llu are allowed", k,
                     code->name, (unsigned long long)range, (unsigned long long)max);
            return SDK_GPU_E_LIMIT;
        }
        words[k] = (int32_t)(offset - start);
        ranges[at] = (vk_buffer_range_t){buffer->buffer, start, range};
    }
    vk_set_info_t info = {VKS_SET_ALLOCATE, NULL, recording->descriptors, 1u, &kernel->set_layout};
    int result = gpu->vk.AllocateDescriptorSets(gpu->device, &info, &set);
    int status = sdk_vk_check(gpu, result, "vkAllocateDescriptorSets");
    if (status != SDK_GPU_OK) {
        return status;
    }
    for (uint32_t k = 0; k < code->bound; ++k) {
        writes[k] = (vk_write_t){VKS_WRITE_SET, NULL, set, k, 0u, 1u, VK_DESCRIPTOR_STORAGE_BUFFER, NULL, ranges + k, NULL};
    }
    gpu->vk.UpdateDescriptorSets(gpu->device, code->bound, writes, 0u, NULL);
    gpu->vk.CmdBindDescriptorSets(recording->commands, VK_BIND_COMPUTE, kernel->layout, 0u, 1u, &set, 0u, NULL);
    return SDK_GPU_OK;
}

int sdk_vk_record_dispatch(sdk_gpu_t *base, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                           sdk_gpu_kernel_t handle, const sdk_gpu_range_t *operands, const int32_t *numbers,
                           const uint32_t groups[3])
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    const sdk_vk_kernel_t *kernel = (const sdk_vk_kernel_t *)(uintptr_t)handle;
    int32_t words[SDK_GPU_WORDS] = {0};
    uint32_t count[3];
    uint32_t at = recording->used;
    if (at >= recording->room) {
        snprintf(base->message, sizeof base->message, "a recording has room for %u dispatches", recording->room);
        return SDK_GPU_E_ARG;
    }
    recording->used = at + 1u;
    if (groups[0] == 0u || groups[1] == 0u || groups[2] == 0u) {
        return SDK_GPU_OK;
    }
    for (int k = 0; k < 3; ++k) { /* kernels take the rest in further steps */
        count[k] = groups[k] < base->limits.groups[k] ? groups[k] : base->limits.groups[k];
    }
    int status = bind(gpu, recording, code, kernel, operands, words);
    if (status != SDK_GPU_OK) {
        return status;
    }
    if (code->words > code->operands) {
        memcpy(words + code->operands, numbers, 4u * ((size_t)code->words - code->operands));
    }
    gpu->vk.CmdBindPipeline(recording->commands, VK_BIND_COMPUTE, kernel->pipeline);
    if (code->words > 0u) {
        gpu->vk.CmdPushConstants(recording->commands, kernel->layout, VK_STAGE_COMPUTE, 0u, 4u * code->words, words);
    }
    recording->ran[at] = 1u;
    if (recording->queries != 0u) {
        gpu->vk.CmdWriteTimestamp(recording->commands, VK_AT_BOTTOM, recording->queries, 2u * at);
    }
    gpu->vk.CmdDispatch(recording->commands, count[0], count[1], count[2]);
    if (recording->queries != 0u) {
        gpu->vk.CmdWriteTimestamp(recording->commands, VK_AT_BOTTOM, recording->queries, 2u * at + 1u);
    }
    return SDK_GPU_OK;
}

int sdk_vk_record_barrier(sdk_gpu_t *base, sdk_gpu_recording_t *recording)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    vk_barrier_t barrier = {VKS_MEMORY_BARRIER, NULL, VK_SHADER_WRITE, VK_SHADER_READ | VK_SHADER_WRITE};
    gpu->vk.CmdPipelineBarrier(recording->commands, VK_AT_COMPUTE, VK_AT_COMPUTE, 0u, 1u, &barrier, 0u, NULL, 0u, NULL);
    return SDK_GPU_OK;
}

int sdk_vk_record_end(sdk_gpu_t *base, sdk_gpu_recording_t *recording)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    vk_barrier_t after = {VKS_MEMORY_BARRIER, NULL, VK_SHADER_WRITE, VK_HOST_READ | VK_HOST_WRITE | VK_TRANSFER_READ};
    gpu->vk.CmdPipelineBarrier(recording->commands, VK_AT_COMPUTE, VK_AT_HOST | VK_AT_TRANSFER, 0u, 1u, &after, 0u, NULL,
                               0u, NULL);
    return sdk_vk_check(gpu, gpu->vk.EndCommandBuffer(recording->commands), "vkEndCommandBuffer");
}

int sdk_vk_submit_now(sdk_vk_t *gpu, vk_obj_t commands)
{
    vk_submit_t submit = {VKS_SUBMIT, NULL, 0u, NULL, NULL, 1u, &commands, 0u, NULL};
    return sdk_vk_check(gpu, gpu->vk.QueueSubmit(gpu->queue, 1u, &submit, 0u), "vkQueueSubmit");
}

int sdk_vk_submit(sdk_gpu_t *base, sdk_gpu_recording_t *recording)
{
    int status = recording->pending ? sdk_vk_wait(base) : SDK_GPU_OK; /* a recording runs once at a time */
    status = status == SDK_GPU_OK ? sdk_vk_submit_now((sdk_vk_t *)base, recording->commands) : status;
    recording->pending = status == SDK_GPU_OK;
    return status;
}

int sdk_vk_wait(sdk_gpu_t *base)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    int status = sdk_vk_check(gpu, gpu->vk.QueueWaitIdle(gpu->queue), "vkQueueWaitIdle");
    for (sdk_gpu_recording_t *r = gpu->recordings; r != NULL && status == SDK_GPU_OK; r = r->next) {
        r->pending = 0u;
    }
    return status;
}

int sdk_vk_times(sdk_gpu_t *base, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    if (recording->queries == 0u) {
        snprintf(base->message, sizeof base->message, "the recording is not timed");
        return SDK_GPU_E_LIMIT;
    }
    uint64_t mask = gpu->stamp_bits >= 64u ? ~(uint64_t)0 : ((uint64_t)1 << gpu->stamp_bits) - 1u;
    int status = sdk_vk_wait(base);
    for (uint32_t k = 0; k < count && status == SDK_GPU_OK; ++k) {
        uint64_t stamps[2] = {0u, 0u};
        ns[k] = 0u;
        if (k >= recording->used || !recording->ran[k]) {
            continue;
        }
        int result = gpu->vk.GetQueryPoolResults(gpu->device, recording->queries, 2u * k, 2u, sizeof stamps, stamps,
                                                 sizeof *stamps, VK_RESULT_64 | VK_RESULT_WAIT);
        status = sdk_vk_check(gpu, result, "vkGetQueryPoolResults");
        ns[k] = (uint64_t)((double)((stamps[1] - stamps[0]) & mask) * gpu->stamp_ns);
    }
    return status;
}
