/* Those types, numbers and functions of Vulkan 1.1 that gpu_vulkan.c uses, declared here so that no SDK is needed: layouts
   and values are those of the specification. Handles of the device's objects are 64 bits wide on every machine. */
#ifndef SDK_RT_GPU_VULKAN_API_H
#define SDK_RT_GPU_VULKAN_API_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t vk_handle_t;     /* of a buffer, pipeline ...: made by a device */
typedef struct vk_object *vk_obj_t; /* an instance, device, queue or command buffer: a pointer */

enum {
    VK_API_1_1 = (1 << 22) | (1 << 12),
    VK_OUT_OF_HOST_MEMORY = -1, VK_OUT_OF_DEVICE_MEMORY = -2, VK_OUT_OF_POOL_MEMORY = -1000069000,
    VK_DEVICE_LOST = -4, VK_INCOMPLETE = 5,
    VK_QUEUE_COMPUTE = 2,
    VK_MEMORY_DEVICE_LOCAL = 1, VK_MEMORY_HOST_VISIBLE = 2, VK_MEMORY_HOST_COHERENT = 4, VK_MEMORY_HOST_CACHED = 8,
    VK_BUFFER_USES = 1 | 2 | 32, /* copied from, copied to, a storage buffer */
    VK_HOST_ALLOCATION = 128,
    VK_DEVICE_INTEGRATED = 1,
    VK_DEVICE_CPU = 4,
    VK_DESCRIPTOR_STORAGE_BUFFER = 7,
    VK_STAGE_COMPUTE = 0x20, /* of a shader */
    VK_BIND_COMPUTE = 1,
    VK_AT_COMPUTE = 0x800, VK_AT_TRANSFER = 0x1000, VK_AT_BOTTOM = 0x2000, VK_AT_HOST = 0x4000, /* stages */
    VK_SHADER_READ = 0x20, VK_SHADER_WRITE = 0x40, /* accesses */
    VK_TRANSFER_READ = 0x800, VK_TRANSFER_WRITE = 0x1000,
    VK_HOST_READ = 0x2000, VK_HOST_WRITE = 0x4000,
    VK_QUERY_TIMESTAMP = 2,
    VK_RESULT_64 = 1,
    VK_RESULT_WAIT = 2,
    VK_POOL_RESETS = 2 /* command buffers of a pool are reset one by one */
};

enum { /* what a struct is: its first member */
    VKS_APPLICATION = 0,
    VKS_INSTANCE = 1,
    VKS_DEVICE_QUEUE = 2,
    VKS_DEVICE = 3,
    VKS_SUBMIT = 4,
    VKS_MEMORY_ALLOCATE = 5,
    VKS_QUERY_POOL = 11,
    VKS_BUFFER = 12,
    VKS_SHADER_MODULE = 16,
    VKS_PIPELINE_CACHE = 17,
    VKS_SHADER_STAGE = 18,
    VKS_COMPUTE_PIPELINE = 29,
    VKS_PIPELINE_LAYOUT = 30,
    VKS_SET_LAYOUT = 32,
    VKS_DESCRIPTOR_POOL = 33,
    VKS_SET_ALLOCATE = 34,
    VKS_WRITE_SET = 35,
    VKS_COMMAND_POOL = 39,
    VKS_COMMAND_ALLOCATE = 40,
    VKS_COMMAND_BEGIN = 42,
    VKS_MEMORY_BARRIER = 46,
    VKS_FEATURES_2 = 1000059000,
    VKS_PROPERTIES_2 = 1000059001,
    VKS_ID_PROPERTIES = 1000071004,
    VKS_EXTERNAL_BUFFER = 1000072000,
    VKS_FEATURES_16BIT = 1000083000,
    VKS_SUBGROUP_PROPERTIES = 1000094000,
    VKS_FEATURES_8BIT = 1000177000,
    VKS_IMPORT_HOST = 1000178000,
    VKS_HOST_POINTER = 1000178001,
    VKS_HOST_PROPERTIES = 1000178002,
    VKS_DRIVER_PROPERTIES = 1000196000
};

typedef struct {
    uint32_t type;
    const void *next;
    const char *application;
    uint32_t application_version;
    const char *engine;
    uint32_t engine_version;
    uint32_t api_version;
} vk_application_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const vk_application_t *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
} vk_instance_info_t;

typedef struct {
    char name[256];
    uint32_t version;
} vk_extension_t;

/* Limits: what lies between those that are read has no name here. */
typedef struct {
    uint32_t skipped_0[7];
    uint32_t storage_range; /* byte 28 */
    uint32_t push_bytes;
    uint32_t allocations;
    uint32_t skipped_40[9];
    uint32_t stage_storage_buffers; /* byte 76 */
    uint32_t skipped_80[34];
    uint32_t shared_bytes; /* byte 216 */
    uint32_t group_count[3];
    uint32_t group_items;
    uint32_t group_size[3];
    uint32_t skipped_248[20];
    uint64_t storage_alignment; /* byte 328 */
    uint32_t skipped_336[21];
    uint32_t timestamps; /* byte 420 */
    float timestamp_ns;
    uint32_t skipped_428[19];
} vk_limits_t;

typedef struct {
    uint32_t api_version;
    uint32_t driver_version;
    uint32_t vendor;
    uint32_t device;
    uint32_t kind;
    char name[256];
    uint8_t cache_uuid[16];
    vk_limits_t limits;
    uint32_t sparse[5];
} vk_properties_t;

typedef struct {
    uint32_t type;
    void *next;
    vk_properties_t properties;
} vk_properties2_t;

typedef struct {
    uint32_t type;
    void *next;
    uint8_t device_uuid[16];
    uint8_t driver_uuid[16];
    uint8_t luid[8];
    uint32_t node_mask;
    uint32_t luid_valid;
} vk_id_properties_t;

typedef struct {
    uint32_t type;
    void *next;
    uint32_t driver;
    char name[256];
    char info[256];
    uint8_t conformance[4];
} vk_driver_properties_t;

typedef struct {
    uint32_t type;
    void *next;
    uint32_t size;
    uint32_t stages;
    uint32_t operations;
    uint32_t quad_all;
} vk_subgroup_properties_t;

typedef struct {
    uint32_t skipped_0[39];
    uint32_t f64; /* byte 156 */
    uint32_t i64;
    uint32_t skipped_164[14];
} vk_features_t;

typedef struct {
    uint32_t type;
    void *next;
    vk_features_t features;
} vk_features2_t;

typedef struct {
    uint32_t type;
    void *next;
    uint32_t storage;
    uint32_t uniform;
    uint32_t push;
    uint32_t in_out; /* of 16 bits only; the struct of 8 bits ends before it */
} vk_features_narrow_t;

typedef struct {
    uint32_t type;
    void *next;
    uint64_t alignment;
} vk_host_properties_t;

typedef struct {
    uint32_t type;
    void *next;
    uint32_t types;
} vk_host_pointer_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t handles;
} vk_external_buffer_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t handle;
    void *memory;
} vk_import_host_t;

typedef struct {
    uint32_t flags;
    uint32_t count;
    uint32_t timestamp_bits;
    uint32_t granularity[3];
} vk_queue_family_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t family;
    uint32_t count;
    const float *priorities;
} vk_queue_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t queue_count;
    const vk_queue_info_t *queues;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
    const vk_features_t *features;
} vk_device_info_t;

typedef struct {
    uint32_t flags;
    uint32_t heap;
} vk_memory_type_t;

typedef struct {
    uint64_t bytes;
    uint32_t flags;
} vk_memory_heap_t;

typedef struct {
    uint32_t type_count;
    vk_memory_type_t types[32];
    uint32_t heap_count;
    vk_memory_heap_t heaps[16];
} vk_memory_properties_t;

typedef struct {
    uint64_t bytes;
    uint64_t alignment;
    uint32_t types;
} vk_requirements_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint64_t bytes;
    uint32_t memory_type;
} vk_memory_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint64_t bytes;
    uint32_t usage;
    uint32_t sharing;
    uint32_t family_count;
    const uint32_t *families;
} vk_buffer_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t bytes;
    const uint32_t *words;
} vk_module_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t bytes;
    const void *data;
} vk_cache_info_t;

typedef struct {
    uint32_t constant;
    uint32_t offset;
    size_t bytes;
} vk_special_t;

typedef struct {
    uint32_t count;
    const vk_special_t *entries;
    size_t bytes;
    const void *data;
} vk_specials_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t stage;
    vk_handle_t module;
    const char *entry;
    const vk_specials_t *specials;
} vk_stage_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    vk_stage_info_t stage;
    vk_handle_t layout;
    vk_handle_t base;
    int32_t base_index;
} vk_pipeline_info_t;

typedef struct {
    uint32_t binding;
    uint32_t kind;
    uint32_t count;
    uint32_t stages;
    const vk_handle_t *samplers;
} vk_binding_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t count;
    const vk_binding_t *bindings;
} vk_set_layout_info_t;

typedef struct {
    uint32_t stages;
    uint32_t offset;
    uint32_t bytes;
} vk_push_range_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t set_count;
    const vk_handle_t *sets;
    uint32_t push_count;
    const vk_push_range_t *push;
} vk_layout_info_t;

typedef struct {
    uint32_t kind;
    uint32_t count;
} vk_pool_size_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t sets;
    uint32_t size_count;
    const vk_pool_size_t *sizes;
} vk_pool_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    vk_handle_t pool;
    uint32_t count;
    const vk_handle_t *layouts;
} vk_set_info_t;

typedef struct {
    vk_handle_t buffer;
    uint64_t offset;
    uint64_t range;
} vk_buffer_range_t;

typedef struct {
    uint32_t type;
    const void *next;
    vk_handle_t set;
    uint32_t binding;
    uint32_t element;
    uint32_t count;
    uint32_t kind;
    const void *images;
    const vk_buffer_range_t *buffers;
    const void *views;
} vk_write_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t family;
} vk_command_pool_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    vk_handle_t pool;
    uint32_t level;
    uint32_t count;
} vk_command_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const void *inheritance;
} vk_begin_info_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t from;
    uint32_t to;
} vk_barrier_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint32_t kind;
    uint32_t count;
    uint32_t statistics;
} vk_query_info_t;

typedef struct {
    uint64_t from;
    uint64_t to;
    uint64_t bytes;
} vk_copy_t;

typedef struct {
    uint32_t type;
    const void *next;
    uint32_t wait_count;
    const vk_handle_t *waits;
    const uint32_t *wait_stages;
    uint32_t count;
    const vk_obj_t *commands;
    uint32_t signal_count;
    const vk_handle_t *signals;
} vk_submit_t;

#endif /* SDK_RT_GPU_VULKAN_API_H */
