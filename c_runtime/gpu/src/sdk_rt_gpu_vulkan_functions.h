/* The functions of Vulkan that the driver calls. */
#ifndef SDK_RT_GPU_VULKAN_FUNCTIONS_H
#define SDK_RT_GPU_VULKAN_FUNCTIONS_H

#include "sdk_rt_gpu_vulkan_api.h"

/* Functions: X(result, name without "vk", arguments). Those of the loader, of an instance, of a device. */
#define VK_INSTANCE_FUNCTIONS(X)                                                                                       \
    X(void, DestroyInstance, (vk_obj_t, const void *))                                                                 \
    X(int, EnumeratePhysicalDevices, (vk_obj_t, uint32_t *, vk_obj_t *))                                               \
    X(void, GetPhysicalDeviceProperties2, (vk_obj_t, vk_properties2_t *))                                              \
    X(void, GetPhysicalDeviceProperties, (vk_obj_t, vk_properties_t *))                                                \
    X(void, GetPhysicalDeviceFeatures2, (vk_obj_t, vk_features2_t *))                                                  \
    X(void, GetPhysicalDeviceMemoryProperties, (vk_obj_t, vk_memory_properties_t *))                                   \
    X(void, GetPhysicalDeviceQueueFamilyProperties, (vk_obj_t, uint32_t *, vk_queue_family_t *))                       \
    X(int, EnumerateDeviceExtensionProperties, (vk_obj_t, const char *, uint32_t *, vk_extension_t *))                 \
    X(int, CreateDevice, (vk_obj_t, const vk_device_info_t *, const void *, vk_obj_t *))                               \
    X(void *, GetDeviceProcAddr, (vk_obj_t, const char *))

#define VK_DEVICE_FUNCTIONS(X)                                                                                         \
    X(void, DestroyDevice, (vk_obj_t, const void *))                                                                   \
    X(void, GetDeviceQueue, (vk_obj_t, uint32_t, uint32_t, vk_obj_t *))                                                \
    X(int, CreateBuffer, (vk_obj_t, const vk_buffer_info_t *, const void *, vk_handle_t *))                            \
    X(void, DestroyBuffer, (vk_obj_t, vk_handle_t, const void *))                                                      \
    X(void, GetBufferMemoryRequirements, (vk_obj_t, vk_handle_t, vk_requirements_t *))                                 \
    X(int, AllocateMemory, (vk_obj_t, const vk_memory_info_t *, const void *, vk_handle_t *))                          \
    X(void, FreeMemory, (vk_obj_t, vk_handle_t, const void *))                                                         \
    X(int, BindBufferMemory, (vk_obj_t, vk_handle_t, vk_handle_t, uint64_t))                                           \
    X(int, MapMemory, (vk_obj_t, vk_handle_t, uint64_t, uint64_t, uint32_t, void **))                                  \
    X(int, CreateShaderModule, (vk_obj_t, const vk_module_info_t *, const void *, vk_handle_t *))                      \
    X(void, DestroyShaderModule, (vk_obj_t, vk_handle_t, const void *))                                                \
    X(int, CreatePipelineCache, (vk_obj_t, const vk_cache_info_t *, const void *, vk_handle_t *))                      \
    X(void, DestroyPipelineCache, (vk_obj_t, vk_handle_t, const void *))                                               \
    X(int, GetPipelineCacheData, (vk_obj_t, vk_handle_t, size_t *, void *))                                            \
    X(int, CreateDescriptorSetLayout, (vk_obj_t, const vk_set_layout_info_t *, const void *, vk_handle_t *))           \
    X(void, DestroyDescriptorSetLayout, (vk_obj_t, vk_handle_t, const void *))                                         \
    X(int, CreatePipelineLayout, (vk_obj_t, const vk_layout_info_t *, const void *, vk_handle_t *))                    \
    X(void, DestroyPipelineLayout, (vk_obj_t, vk_handle_t, const void *))                                              \
    X(int, CreateComputePipelines,                                                                                     \
      (vk_obj_t, vk_handle_t, uint32_t, const vk_pipeline_info_t *, const void *, vk_handle_t *))                      \
    X(void, DestroyPipeline, (vk_obj_t, vk_handle_t, const void *))                                                    \
    X(int, CreateDescriptorPool, (vk_obj_t, const vk_pool_info_t *, const void *, vk_handle_t *))                      \
    X(void, DestroyDescriptorPool, (vk_obj_t, vk_handle_t, const void *))                                              \
    X(int, ResetDescriptorPool, (vk_obj_t, vk_handle_t, uint32_t))                                                     \
    X(int, AllocateDescriptorSets, (vk_obj_t, const vk_set_info_t *, vk_handle_t *))                                   \
    X(void, UpdateDescriptorSets, (vk_obj_t, uint32_t, const vk_write_t *, uint32_t, const void *))                    \
    X(int, CreateCommandPool, (vk_obj_t, const vk_command_pool_info_t *, const void *, vk_handle_t *))                 \
    X(void, DestroyCommandPool, (vk_obj_t, vk_handle_t, const void *))                                                 \
    X(int, AllocateCommandBuffers, (vk_obj_t, const vk_command_info_t *, vk_obj_t *))                                  \
    X(void, FreeCommandBuffers, (vk_obj_t, vk_handle_t, uint32_t, const vk_obj_t *))                                   \
    X(int, BeginCommandBuffer, (vk_obj_t, const vk_begin_info_t *))                                                    \
    X(int, EndCommandBuffer, (vk_obj_t))                                                                               \
    X(void, CmdBindPipeline, (vk_obj_t, uint32_t, vk_handle_t))                                                        \
    X(void, CmdBindDescriptorSets,                                                                                     \
      (vk_obj_t, uint32_t, vk_handle_t, uint32_t, uint32_t, const vk_handle_t *, uint32_t, const uint32_t *))          \
    X(void, CmdPushConstants, (vk_obj_t, vk_handle_t, uint32_t, uint32_t, uint32_t, const void *))                     \
    X(void, CmdDispatch, (vk_obj_t, uint32_t, uint32_t, uint32_t))                                                     \
    X(void, CmdPipelineBarrier,                                                                                        \
      (vk_obj_t, uint32_t, uint32_t, uint32_t, uint32_t, const vk_barrier_t *, uint32_t, const void *, uint32_t,       \
       const void *))                                                                                                  \
    X(void, CmdCopyBuffer, (vk_obj_t, vk_handle_t, vk_handle_t, uint32_t, const vk_copy_t *))                          \
    X(int, CreateQueryPool, (vk_obj_t, const vk_query_info_t *, const void *, vk_handle_t *))                          \
    X(void, DestroyQueryPool, (vk_obj_t, vk_handle_t, const void *))                                                   \
    X(void, CmdResetQueryPool, (vk_obj_t, vk_handle_t, uint32_t, uint32_t))                                            \
    X(void, CmdWriteTimestamp, (vk_obj_t, uint32_t, vk_handle_t, uint32_t))                                            \
    X(int, GetQueryPoolResults,                                                                                        \
      (vk_obj_t, vk_handle_t, uint32_t, uint32_t, size_t, void *, uint64_t, uint32_t))                                 \
    X(int, QueueSubmit, (vk_obj_t, uint32_t, const vk_submit_t *, vk_handle_t))                                        \
    X(int, QueueWaitIdle, (vk_obj_t))

typedef struct {
#define X(result, name, arguments) result(*name) arguments;
    VK_INSTANCE_FUNCTIONS(X)
    VK_DEVICE_FUNCTIONS(X)
#undef X
} vk_functions_t;

#endif /* SDK_RT_GPU_VULKAN_FUNCTIONS_H */
