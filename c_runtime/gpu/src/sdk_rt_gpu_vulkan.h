/* What the parts of the Vulkan driver share. */
#ifndef SDK_RT_GPU_VULKAN_H
#define SDK_RT_GPU_VULKAN_H

#include "sdk_rt_gpu.h"
#include "sdk_rt_gpu_vulkan_functions.h"

/* A buffer: mapped where the host sees the device's memory. It begins `first` bytes behind the start of the driver's, for
   memory of the host is taken in whole pages. */
typedef struct sdk_vk_buffer {
    struct sdk_vk_buffer *next;
    vk_handle_t buffer, memory;
    uint64_t bytes, first;
    void *mapped;
} sdk_vk_buffer_t;

typedef struct sdk_vk_kernel {
    struct sdk_vk_kernel *next;
    vk_handle_t set_layout, layout, pipeline, cache;
} sdk_vk_kernel_t;

struct sdk_gpu_recording {
    struct sdk_gpu_recording *next;
    vk_handle_t descriptors, queries;
    vk_obj_t commands;
    uint32_t room, used; /* dispatches */
    uint8_t pending;     /* submitted, not waited for since */
    uint8_t *ran;        /* which dispatches have groups */
};

typedef struct {
    sdk_gpu_t base; /* first: what the interface points to */
    vk_functions_t vk;
    void *library;
    vk_obj_t instance, physical, device, queue;
    uint32_t family, stamp_bits;
    double stamp_ns;
    uint64_t alignment;
    uint64_t page; /* of the host's memory that can be taken as the device's; 0: none can */
    int (*host_pointer)(vk_obj_t, uint32_t, const void *, vk_host_pointer_t *);
    vk_memory_properties_t memory;
    vk_handle_t pool;
    vk_obj_t copies; /* the command buffer of copies through `staging` */
    sdk_vk_buffer_t staging;
    sdk_vk_buffer_t *buffers;
    sdk_vk_kernel_t *kernels;
    sdk_gpu_recording_t *recordings;
} sdk_vk_t;

#define SDK_VK_STAGING (1u << 20) /* bytes that a copy takes at a time where memory is not shared */

/* Notes in gpu->message what failed; the status for a result of the driver's, SDK_GPU_OK for one that is none. */
int sdk_vk_check(sdk_vk_t *gpu, int result, const char *what);

/* gpu_vulkan_memory.c */
int sdk_vk_make(sdk_vk_t *gpu, uint64_t bytes, int for_host, void *memory, sdk_vk_buffer_t *out);
void sdk_vk_unmake(sdk_vk_t *gpu, sdk_vk_buffer_t *buffer);
int sdk_vk_buffer(sdk_gpu_t *gpu, uint64_t bytes, sdk_gpu_buffer_t *out);
int sdk_vk_share(sdk_gpu_t *gpu, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out);
int sdk_vk_turn(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host);
void sdk_vk_free_buffer(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer);
int sdk_vk_write(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, const void *data, uint64_t bytes);
int sdk_vk_read(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, void *data, uint64_t bytes);

/* gpu_vulkan_run.c */
int sdk_vk_kernel(sdk_gpu_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out);
int sdk_vk_binary(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel, void *out, size_t *bytes);
void sdk_vk_free_kernel(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel);
int sdk_vk_recording(sdk_gpu_t *gpu, uint32_t dispatches, int timed, sdk_gpu_recording_t **out);
void sdk_vk_free_recording(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_vk_record_begin(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_vk_record_dispatch(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                           sdk_gpu_kernel_t kernel, const sdk_gpu_range_t *operands, const int32_t *numbers,
                           const uint32_t groups[3]);
int sdk_vk_record_barrier(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_vk_record_end(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_vk_submit(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_vk_wait(sdk_gpu_t *gpu);
int sdk_vk_times(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count);
int sdk_vk_submit_now(sdk_vk_t *gpu, vk_obj_t commands);

#endif /* SDK_RT_GPU_VULKAN_H */
