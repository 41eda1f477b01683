/* Buffers of the Vulkan driver, and copies to and from them. */
#include "sdk_rt_gpu_vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory type that suits best: what has all of `must` and most of `wish`, the first of those; 32 for none. */
static uint32_t type_of(const sdk_vk_t *gpu, uint32_t allowed, uint32_t must, uint32_t wish)
{
    uint32_t best = 32u;
    int max = -1;
    for (uint32_t k = 0; k < gpu->memory.type_count && k < 32u; ++k) {
        uint32_t flags = gpu->memory.types[k].flags;
        if ((allowed >> k & 1u) == 0u || (flags & must) != must) {
            continue;
        }
        int held = 0;
        for (uint32_t bits = flags & wish; bits != 0u; bits &= bits - 1u) {
            ++held;
        }
        if (held > max) {
            max = held;
            best = k;
        }
    }
    return best;
}

/* Memory of the host, where it is given, is taken in whole pages. */
int sdk_vk_make(sdk_vk_t *gpu, uint64_t bytes, int for_host, void *memory, sdk_vk_buffer_t *out)
{
    const uint32_t host = VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT;
    const vk_external_buffer_t external = {VKS_EXTERNAL_BUFFER, NULL, VK_HOST_ALLOCATION};
    vk_import_host_t import = {VKS_IMPORT_HOST, NULL, VK_HOST_ALLOCATION, NULL};
    vk_host_pointer_t of_host = {VKS_HOST_POINTER, NULL, 0u};
    memset(out, 0, sizeof *out);
    out->bytes = (bytes + 15u) & ~(uint64_t)15u; /* kernels may read whole words of bytes */
    if (memory != NULL) {
        out->first = (uintptr_t)memory % gpu->page;
        out->bytes = (out->first + bytes + gpu->page - 1u) / gpu->page * gpu->page - out->first;
        import.memory = (uint8_t *)memory - out->first;
    }
    vk_buffer_info_t info = {VKS_BUFFER, memory == NULL ? NULL : &external, 0u, out->first + out->bytes, VK_BUFFER_USES,
                             0u, 0u, NULL};
    int status = sdk_vk_check(gpu, gpu->vk.CreateBuffer(gpu->device, &info, NULL, &out->buffer), "vkCreateBuffer");
    if (status != SDK_GPU_OK) {
        out->buffer = 0u;
        return status;
    }
    vk_requirements_t needs;
    memset(&needs, 0, sizeof needs);
    gpu->vk.GetBufferMemoryRequirements(gpu->device, out->buffer, &needs);
    uint32_t type = 32u;
    if (memory != NULL) {
        int result = gpu->host_pointer(gpu->device, VK_HOST_ALLOCATION, import.memory, &of_host);
        type = result == 0 && needs.bytes <= info.bytes ? type_of(gpu, needs.types & of_host.types, host, VK_MEMORY_HOST_CACHED) : 32u;
    } else if (for_host || gpu->base.limits.shared_memory) {
        uint32_t wish = VK_MEMORY_HOST_CACHED | (for_host ? 0u : (uint32_t)VK_MEMORY_DEVICE_LOCAL);
        type = type_of(gpu, needs.types, host, wish);
    }
    if (type == 32u && !for_host && memory == NULL) {
        type = type_of(gpu, needs.types, 0u, VK_MEMORY_DEVICE_LOCAL);
    }
    if (type == 32u) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "%s: no memory for buffers", gpu->base.device.name);
        sdk_vk_unmake(gpu, out);
        return SDK_GPU_E_MEMORY;
    }
    vk_memory_info_t wanted = {VKS_MEMORY_ALLOCATE, memory == NULL ? NULL : &import, memory == NULL ? needs.bytes : info.bytes,
                               type};
    status = sdk_vk_check(gpu, gpu->vk.AllocateMemory(gpu->device, &wanted, NULL, &out->memory), "vkAllocateMemory");
    if (status == SDK_GPU_OK) {
        int result = gpu->vk.BindBufferMemory(gpu->device, out->buffer, out->memory, 0u);
        status = sdk_vk_check(gpu, result, "vkBindBufferMemory");
    } else {
        out->memory = 0u;
    }
    out->mapped = memory;
    if (status == SDK_GPU_OK && memory == NULL && (gpu->memory.types[type].flags & host) == host) {
        int result = gpu->vk.MapMemory(gpu->device, out->memory, 0u, ~(uint64_t)0, 0u, &out->mapped);
        status = sdk_vk_check(gpu, result, "vkMapMemory");
    }
    if (status != SDK_GPU_OK) {
        sdk_vk_unmake(gpu, out);
    }
    return status;
}

void sdk_vk_unmake(sdk_vk_t *gpu, sdk_vk_buffer_t *buffer)
{
    if (buffer->buffer != 0u) {
        gpu->vk.DestroyBuffer(gpu->device, buffer->buffer, NULL);
    }
    if (buffer->memory != 0u) { /* which unmaps it */
        gpu->vk.FreeMemory(gpu->device, buffer->memory, NULL);
    }
    buffer->buffer = buffer->memory = 0u;
    buffer->mapped = NULL;
}

static int make_buffer(sdk_gpu_t *base, uint64_t bytes, void *memory, sdk_gpu_buffer_t *out)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    sdk_vk_buffer_t *made = calloc(1, sizeof *made);
    if (made == NULL) {
        snprintf(base->message, sizeof base->message, "memory of the host is out");
        return SDK_GPU_E_MEMORY;
    }
    int status = sdk_vk_make(gpu, bytes, 0, memory, made);
    if (status == SDK_GPU_OK && made->mapped == NULL && gpu->staging.buffer == 0u) {
        status = sdk_vk_make(gpu, SDK_VK_STAGING, 1, NULL, &gpu->staging);
        if (status == SDK_GPU_OK && gpu->copies == NULL) {
            vk_command_info_t info = {VKS_COMMAND_ALLOCATE, NULL, gpu->pool, 0u, 1u};
            int result = gpu->vk.AllocateCommandBuffers(gpu->device, &info, &gpu->copies);
            status = sdk_vk_check(gpu, result, "vkAllocateCommandBuffers");
        }
        if (status != SDK_GPU_OK) {
            sdk_vk_unmake(gpu, &gpu->staging);
            sdk_vk_unmake(gpu, made);
        }
    }
    if (status != SDK_GPU_OK) {
        free(made);
        return status;
    }
    made->next = gpu->buffers;
    gpu->buffers = made;
    *out = (sdk_gpu_buffer_t)(uintptr_t)made;
    return SDK_GPU_OK;
}

int sdk_vk_buffer(sdk_gpu_t *base, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    return make_buffer(base, bytes, NULL, out);
}

int sdk_vk_share(sdk_gpu_t *base, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    const int status = ((sdk_vk_t *)base)->page == 0u ? SDK_GPU_E_LIMIT : make_buffer(base, bytes, memory, out);
    return status == SDK_GPU_OK || status == SDK_GPU_E_LOST ? status : SDK_GPU_E_LIMIT; /* such as memory that is taken */
}

int sdk_vk_turn(sdk_gpu_t *base, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host)
{
    (void)buffer, (void)memory, (void)bytes; /* submitting, and the ends of recordings, are barriers to the host */
    return to_host ? sdk_vk_wait(base) : SDK_GPU_OK;
}

void sdk_vk_free_buffer(sdk_gpu_t *base, sdk_gpu_buffer_t buffer)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    for (sdk_vk_buffer_t **at = &gpu->buffers; *at != NULL; at = &(*at)->next) {
        if ((sdk_gpu_buffer_t)(uintptr_t)*at == buffer) {
            sdk_vk_buffer_t *found = *at;
            *at = found->next;
            (void)sdk_vk_wait(base);
            sdk_vk_unmake(gpu, found);
            free(found);
            return;
        }
    }
}

/* Copies a piece between the buffer and the staging one, and waits for it. */
static int copy_piece(sdk_vk_t *gpu, vk_handle_t from, vk_handle_t to, vk_copy_t piece)
{
    vk_begin_info_t begin = {VKS_COMMAND_BEGIN, NULL, 1u, NULL}; /* submitted once */
    int status = sdk_vk_check(gpu, gpu->vk.BeginCommandBuffer(gpu->copies, &begin), "vkBeginCommandBuffer");
    if (status != SDK_GPU_OK) {
        return status;
    }
    vk_barrier_t before = {VKS_MEMORY_BARRIER, NULL, VK_SHADER_WRITE | VK_TRANSFER_WRITE | VK_HOST_WRITE,
                           VK_TRANSFER_READ | VK_TRANSFER_WRITE};
    vk_barrier_t after = {VKS_MEMORY_BARRIER, NULL, VK_TRANSFER_WRITE, VK_SHADER_READ | VK_SHADER_WRITE | VK_HOST_READ};
    gpu->vk.CmdPipelineBarrier(gpu->copies, VK_AT_COMPUTE | VK_AT_TRANSFER | VK_AT_HOST, VK_AT_TRANSFER, 0u, 1u, &before,
                               0u, NULL, 0u, NULL);
    gpu->vk.CmdCopyBuffer(gpu->copies, from, to, 1u, &piece);
    gpu->vk.CmdPipelineBarrier(gpu->copies, VK_AT_TRANSFER, VK_AT_COMPUTE | VK_AT_HOST, 0u, 1u, &after, 0u, NULL, 0u,
                               NULL);
    status = sdk_vk_check(gpu, gpu->vk.EndCommandBuffer(gpu->copies), "vkEndCommandBuffer");
    status = status == SDK_GPU_OK ? sdk_vk_submit_now(gpu, gpu->copies) : status;
    return status == SDK_GPU_OK ? sdk_vk_wait(&gpu->base) : status;
}

static int inside(sdk_gpu_t *base, const sdk_vk_buffer_t *buffer, uint64_t offset, uint64_t bytes)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) {
        return SDK_GPU_OK;
    }
    snprintf(base->message, sizeof base->message, "a copy of %llu bytes at %llu leaves a buffer of %llu",
             (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
    return SDK_GPU_E_ARG;
}

int sdk_vk_write(sdk_gpu_t *base, sdk_gpu_buffer_t handle, uint64_t offset, const void *data, uint64_t bytes)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    sdk_vk_buffer_t *buffer = (sdk_vk_buffer_t *)(uintptr_t)handle;
    int status = inside(base, buffer, offset, bytes);
    status = status == SDK_GPU_OK ? sdk_vk_wait(base) : status; /* what runs may read it */
    if (status != SDK_GPU_OK) {
        return status;
    }
    if (buffer->mapped != NULL) {
        memcpy((uint8_t *)buffer->mapped + offset, data, (size_t)bytes);
        return SDK_GPU_OK;
    }
    for (uint64_t done = 0; done < bytes && status == SDK_GPU_OK;) {
        uint64_t part = bytes - done < SDK_VK_STAGING ? bytes - done : SDK_VK_STAGING;
        memcpy(gpu->staging.mapped, (const uint8_t *)data + done, (size_t)part);
        status = copy_piece(gpu, gpu->staging.buffer, buffer->buffer, (vk_copy_t){0u, offset + done, part});
        done += part;
    }
    return status;
}

int sdk_vk_read(sdk_gpu_t *base, sdk_gpu_buffer_t handle, uint64_t offset, void *data, uint64_t bytes)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    sdk_vk_buffer_t *buffer = (sdk_vk_buffer_t *)(uintptr_t)handle;
    int status = inside(base, buffer, offset, bytes);
    status = status == SDK_GPU_OK ? sdk_vk_wait(base) : status;
    if (status != SDK_GPU_OK) {
        return status;
    }
    if (buffer->mapped != NULL) {
        memcpy(data, (const uint8_t *)buffer->mapped + offset, (size_t)bytes);
        return SDK_GPU_OK;
    }
    for (uint64_t done = 0; done < bytes && status == SDK_GPU_OK;) {
        uint64_t part = bytes - done < SDK_VK_STAGING ? bytes - done : SDK_VK_STAGING;
        status = copy_piece(gpu, buffer->buffer, gpu->staging.buffer, (vk_copy_t){offset + done, 0u, part});
        if (status == SDK_GPU_OK) {
            memcpy((uint8_t *)data + done, gpu->staging.mapped, (size_t)part);
        }
        done += part;
    }
    return status;
}
