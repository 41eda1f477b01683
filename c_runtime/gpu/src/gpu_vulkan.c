/* The driver for Vulkan 1.1: the library, devices and their limits, opening and closing. */
#include "sdk_rt_gpu_vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
static void *open_library(void) { return (void *)LoadLibraryA("vulkan-1.dll"); }
static void close_library(void *library) { FreeLibrary((HMODULE)library); }
static uint64_t page_bytes(void) { return 4096u; }
typedef void *(*proc_t)(vk_obj_t, const char *);
static proc_t first_function(void *library) { return (proc_t)GetProcAddress((HMODULE)library, "vkGetInstanceProcAddr"); }
#else
#include <dlfcn.h>
#include <unistd.h>
typedef void *(*proc_t)(vk_obj_t, const char *);

static void *open_library(void)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", "libMoltenVK.dylib"};
    void *library = NULL;
    for (size_t k = 0; k < sizeof names / sizeof *names && library == NULL; ++k) {
        library = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static void close_library(void *library)
{
    dlclose(library);
}

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static proc_t first_function(void *library)
{
    proc_t found;
    *(void **)&found = dlsym(library, "vkGetInstanceProcAddr");
    return found;
}
#endif

#define HOST_MEMORY "VK_EXT_external_memory_host"
#define MAX_DEVICES 16u
#define MAX_FAMILIES 32u
#define MAX_EXTENSIONS 1024u

static int status_of(int result)
{
    switch (result) {
    case VK_OUT_OF_HOST_MEMORY:
    case VK_OUT_OF_DEVICE_MEMORY:
    case VK_OUT_OF_POOL_MEMORY:
        return SDK_GPU_E_MEMORY;
    case VK_DEVICE_LOST:
        return SDK_GPU_E_LOST;
    default:
        return result < 0 ? SDK_GPU_E_DRIVER : SDK_GPU_OK;
    }
}

int sdk_vk_check(sdk_vk_t *gpu, int result, const char *what)
{
    int status = status_of(result);
    if (status != SDK_GPU_OK) {
        snprintf(gpu->base.message, sizeof gpu->base.message, "%s: %s failed: VkResult %d", gpu->base.device.name, what,
                 result);
    }
    return status;
}

static int fail(sdk_vk_t *gpu, int status, const char *what)
{
    snprintf(gpu->base.message, sizeof gpu->base.message, "%s", what);
    return status;
}

/* --- the library and its instance ------------------------------------------------------------------------------- */

static void set_function(void *place, void *function)
{
    memcpy(place, &function, sizeof function);
}

/* Finds functions, whose pointers are in the order of their names from `place` on; whether all are there. */
static int find_functions(void *(*get)(vk_obj_t, const char *), vk_obj_t from, const char *names, void *place)
{
    for (uint8_t *at = place; *names != '\0'; names += strlen(names) + 1u, at += sizeof(void *)) {
        void *const found = get(from, names);
        if (found == NULL) {
            return 0;
        }
        set_function(at, found);
    }
    return 1;
}

static int start(sdk_vk_t *gpu)
{
    static const char names[] = {
#define X(result, name, arguments) "vk" #name "\0"
        VK_INSTANCE_FUNCTIONS(X)
    };
    gpu->library = open_library();
    if (gpu->library == NULL) {
        return fail(gpu, SDK_GPU_E_LIBRARY, "there is no Vulkan library (libvulkan.so.1)");
    }
    proc_t get = first_function(gpu->library);
    int (*create)(const vk_instance_info_t *, const void *, vk_obj_t *) = NULL;
    int (*version)(uint32_t *) = NULL;
    if (get == NULL) {
        return fail(gpu, SDK_GPU_E_LIBRARY, "the Vulkan library has no vkGetInstanceProcAddr");
    }
    set_function(&create, get(NULL, "vkCreateInstance"));
    set_function(&version, get(NULL, "vkEnumerateInstanceVersion"));
    uint32_t api = 0u;
    if (create == NULL || version == NULL || version(&api) != 0 || api < (uint32_t)VK_API_1_1) {
        return fail(gpu, SDK_GPU_E_LIBRARY, "the Vulkan library is older than Vulkan 1.1");
    }
    vk_application_t application = {VKS_APPLICATION, NULL, "sdk", 1u, "sdk", 1u, VK_API_1_1};
    vk_instance_info_t info = {VKS_INSTANCE, NULL, 0u, &application, 0u, NULL, 0u, NULL};
    int result = create(&info, NULL, &gpu->instance);
    if (result != 0) {
        gpu->instance = NULL;
        snprintf(gpu->base.message, sizeof gpu->base.message, "vkCreateInstance failed: VkResult %d", result);
        return result == -9 ? SDK_GPU_E_DEVICE : SDK_GPU_E_LIBRARY; /* -9: no driver */
    }
    if (!find_functions(get, gpu->instance, names, &gpu->vk)) {
        return fail(gpu, SDK_GPU_E_LIBRARY, "the Vulkan library lacks a function of Vulkan 1.1");
    }
    return SDK_GPU_OK;
}

static void stop(sdk_vk_t *gpu)
{
    if (gpu->instance != NULL && gpu->vk.DestroyInstance != NULL) {
        gpu->vk.DestroyInstance(gpu->instance, NULL);
    }
    if (gpu->library != NULL) {
        close_library(gpu->library);
    }
    free(gpu);
}

/* --- devices ----------------------------------------------------------------------------------------------------- */

static int has_extension(sdk_vk_t *gpu, vk_obj_t device, const char *name)
{
    uint32_t count = 0u;
    if (gpu->vk.EnumerateDeviceExtensionProperties(device, NULL, &count, NULL) != 0 || count == 0u) {
        return 0;
    }
    count = count < MAX_EXTENSIONS ? count : MAX_EXTENSIONS;
    vk_extension_t *all = calloc(count, sizeof *all);
    int found = 0;
    if (all != NULL) {
        int result = gpu->vk.EnumerateDeviceExtensionProperties(device, NULL, &count, all);
        for (uint32_t k = 0; (result == 0 || result == VK_INCOMPLETE) && k < count && !found; ++k) {
            found = strncmp(all[k].name, name, sizeof all[k].name) == 0;
        }
        free(all);
    }
    return found;
}

/* The first family of queues that computes; MAX_FAMILIES where there is none. */
static uint32_t family_of(sdk_vk_t *gpu, vk_obj_t device, uint32_t *stamp_bits)
{
    vk_queue_family_t all[MAX_FAMILIES];
    uint32_t count = MAX_FAMILIES;
    gpu->vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, all);
    for (uint32_t k = 0; k < count; ++k) {
        if ((all[k].flags & VK_QUEUE_COMPUTE) != 0u && all[k].count > 0u) {
            *stamp_bits = all[k].timestamp_bits;
            return k;
        }
    }
    return MAX_FAMILIES;
}

static const char *vendor_of(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } known[] = {{0x1002u, "AMD"},      {0x1010u, "Imagination"}, {0x106Bu, "Apple"},    {0x10DEu, "NVIDIA"},
                 {0x13B5u, "Arm"},      {0x14E4u, "Broadcom"},    {0x5143u, "Qualcomm"}, {0x8086u, "Intel"},
                 {0x10005u, "Mesa"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
        if (known[k].id == id) {
            return known[k].name;
        }
    }
    return "";
}

typedef struct {
    vk_properties2_t properties;
    vk_driver_properties_t driver;
    vk_id_properties_t id;
    vk_subgroup_properties_t subgroup;
    vk_host_properties_t host; /* alignment 0: it has no memory of the host */
    vk_features2_t features;
    vk_features_narrow_t narrow8, narrow16;
    vk_memory_properties_t memory;
    uint32_t family, stamp_bits;
    uint8_t eight; /* the extension for buffers of bytes */
} facts_t;

/* What a device tells of itself; whether it can run kernels. */
static int look(sdk_vk_t *gpu, vk_obj_t device, facts_t *facts)
{
    memset(facts, 0, sizeof *facts);
    gpu->vk.GetPhysicalDeviceProperties(device, &facts->properties.properties);
    facts->family = family_of(gpu, device, &facts->stamp_bits);
    if (facts->properties.properties.api_version < (uint32_t)VK_API_1_1 || facts->family == MAX_FAMILIES) {
        return 0;
    }
    facts->eight = (uint8_t)has_extension(gpu, device, "VK_KHR_8bit_storage");
    facts->properties.type = VKS_PROPERTIES_2;
    facts->properties.next = &facts->id;
    facts->id.type = VKS_ID_PROPERTIES;
    facts->id.next = &facts->subgroup;
    facts->subgroup.type = VKS_SUBGROUP_PROPERTIES;
    if (has_extension(gpu, device, "VK_KHR_driver_properties")) {
        facts->driver.type = VKS_DRIVER_PROPERTIES;
        facts->subgroup.next = &facts->driver;
    }
    if (has_extension(gpu, device, HOST_MEMORY)) {
        facts->host.type = VKS_HOST_PROPERTIES;
        facts->host.next = facts->subgroup.next;
        facts->subgroup.next = &facts->host;
    }
    gpu->vk.GetPhysicalDeviceProperties2(device, &facts->properties);
    facts->features.type = VKS_FEATURES_2;
    facts->features.next = &facts->narrow16;
    facts->narrow16.type = VKS_FEATURES_16BIT;
    facts->narrow8.type = VKS_FEATURES_8BIT;
    facts->narrow16.next = facts->eight ? &facts->narrow8 : NULL;
    gpu->vk.GetPhysicalDeviceFeatures2(device, &facts->features);
    gpu->vk.GetPhysicalDeviceMemoryProperties(device, &facts->memory);
    return facts->properties.properties.limits.push_bytes >= 4u * SDK_GPU_WORDS;
}

static void tell(const facts_t *facts, sdk_gpu_device_t *device, sdk_gpu_limits_t *limits)
{
    const vk_properties_t *p = &facts->properties.properties;
    memset(device, 0, sizeof *device);
    memset(limits, 0, sizeof *limits);
    snprintf(device->name, sizeof device->name, "%.127s", p->name);
    snprintf(device->vendor, sizeof device->vendor, "%s", vendor_of(p->vendor));
    snprintf(device->driver, sizeof device->driver, "Vulkan %u.%u %.40s %.40s", p->api_version >> 22,
             (p->api_version >> 12) & 0x3FFu, facts->driver.name, facts->driver.info);
    for (int k = 0; k < 16; ++k) { /* of both: the same card with another driver is another device */
        device->uuid[k] = (uint8_t)(facts->id.device_uuid[k] ^ facts->id.driver_uuid[k] ^ p->cache_uuid[k]);
    }
    device->software = p->kind == VK_DEVICE_CPU;
    limits->buffer_bytes = p->limits.storage_range;
    for (uint32_t k = 0; k < facts->memory.heap_count && k < 16u; ++k) {
        if ((facts->memory.heaps[k].flags & 1u) != 0u) { /* of the device */
            limits->memory_bytes += facts->memory.heaps[k].bytes;
        }
    }
    limits->operands = p->limits.stage_storage_buffers;
    limits->local_bytes = p->limits.shared_bytes;
    limits->group_items = p->limits.group_items;
    for (int k = 0; k < 3; ++k) {
        limits->group[k] = p->limits.group_size[k];
        limits->groups[k] = p->limits.group_count[k];
    }
    limits->subgroup = facts->subgroup.size;
    limits->tick_ps = facts->stamp_bits == 0u ? 0u : (uint32_t)(p->limits.timestamp_ns * 1000.0f + 0.5f);
    limits->f64 = facts->features.features.f64 != 0u;
    limits->i64 = facts->features.features.i64 != 0u;
    limits->bytes = facts->narrow8.storage != 0u && facts->narrow16.storage != 0u;
    limits->shared_memory = p->kind == VK_DEVICE_INTEGRATED || p->kind == VK_DEVICE_CPU;
}

/* The devices that can run kernels, real ones before processors that stand in for one. */
static int devices_of(sdk_vk_t *gpu, vk_obj_t *out, uint32_t *count)
{
    vk_obj_t all[MAX_DEVICES];
    uint32_t found = MAX_DEVICES;
    int result = gpu->vk.EnumeratePhysicalDevices(gpu->instance, &found, all);
    int status = result == VK_INCOMPLETE ? SDK_GPU_OK : sdk_vk_check(gpu, result, "vkEnumeratePhysicalDevices");
    *count = 0u;
    facts_t *facts = status == SDK_GPU_OK ? calloc(1, sizeof *facts) : NULL;
    if (status == SDK_GPU_OK && facts == NULL) {
        return fail(gpu, SDK_GPU_E_MEMORY, "memory of the host is out");
    }
    for (int software = 0; status == SDK_GPU_OK && software < 2; ++software) {
        for (uint32_t k = 0; k < found; ++k) {
            int runs = look(gpu, all[k], facts);
            if (runs && (facts->properties.properties.kind == VK_DEVICE_CPU) == software) {
                out[(*count)++] = all[k];
            }
        }
    }
    free(facts);
    return status;
}

static sdk_vk_t *begin(char message[512], int *status)
{
    sdk_vk_t *gpu = calloc(1, sizeof *gpu);
    *status = gpu == NULL ? SDK_GPU_E_MEMORY : start(gpu);
    if (gpu == NULL && message != NULL) {
        snprintf(message, 512, "memory of the host is out");
    }
    return gpu;
}

static int end(sdk_vk_t *gpu, char message[512], int status)
{
    if (status != SDK_GPU_OK && message != NULL && gpu != NULL) {
        memcpy(message, gpu->base.message, sizeof gpu->base.message);
    }
    if (gpu != NULL) {
        stop(gpu);
    }
    return status;
}

int sdk_gpu_list_vulkan(sdk_gpu_device_t *out, sdk_gpu_limits_t *limits, uint32_t max, uint32_t *count, char message[512])
{
    int status;
    vk_obj_t devices[MAX_DEVICES];
    sdk_vk_t *gpu = begin(message, &status);
    if (count == NULL) {
        return end(gpu, NULL, SDK_GPU_E_ARG);
    }
    *count = 0u;
    if (status == SDK_GPU_E_DEVICE) {
        return end(gpu, NULL, SDK_GPU_OK);
    }
    status = status == SDK_GPU_OK ? devices_of(gpu, devices, count) : status;
    facts_t *facts = status == SDK_GPU_OK ? calloc(1, sizeof *facts) : NULL;
    for (uint32_t k = 0; facts != NULL && k < *count && k < max; ++k) {
        sdk_gpu_device_t device;
        sdk_gpu_limits_t limit;
        (void)look(gpu, devices[k], facts);
        tell(facts, out != NULL ? out + k : &device, limits != NULL ? limits + k : &limit);
    }
    free(facts);
    return end(gpu, message, status);
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static int open_device(sdk_vk_t *gpu, facts_t *facts)
{
    const char *extensions[2] = {"VK_KHR_8bit_storage", HOST_MEMORY};
    const uint32_t skipped = facts->eight ? 0u : 1u;
    static const float priority = 1.0f;
    vk_queue_info_t queue = {VKS_DEVICE_QUEUE, NULL, 0u, facts->family, 1u, &priority};
    vk_features_t wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.f64 = facts->features.features.f64;
    wanted.i64 = facts->features.features.i64;
    facts->features.features = wanted;
    facts->narrow16.uniform = facts->narrow16.push = facts->narrow16.in_out = 0u;
    facts->narrow8.uniform = facts->narrow8.push = 0u;
    uint32_t count = (facts->eight ? 1u : 0u) + (gpu->page != 0u ? 1u : 0u);
    vk_device_info_t info = {VKS_DEVICE, &facts->features, 0u, 1u, &queue, 0u, NULL, count, extensions + skipped, NULL};
    int status = sdk_vk_check(gpu, gpu->vk.CreateDevice(gpu->physical, &info, NULL, &gpu->device), "vkCreateDevice");
    if (status != SDK_GPU_OK) {
        gpu->device = NULL;
        return status;
    }
    static const char names[] = {VK_DEVICE_FUNCTIONS(X)};
#undef X
    if (!find_functions(gpu->vk.GetDeviceProcAddr, gpu->device, names, &gpu->vk.DestroyDevice)) {
        return fail(gpu, SDK_GPU_E_LIBRARY, "the driver lacks a function of Vulkan 1.1");
    }
    set_function(&gpu->host_pointer, gpu->vk.GetDeviceProcAddr(gpu->device, "vkGetMemoryHostPointerPropertiesEXT"));
    gpu->page = gpu->host_pointer == NULL ? 0u : gpu->page;
    gpu->vk.GetDeviceQueue(gpu->device, facts->family, 0u, &gpu->queue);
    vk_command_pool_info_t pool = {VKS_COMMAND_POOL, NULL, VK_POOL_RESETS, facts->family};
    return sdk_vk_check(gpu, gpu->vk.CreateCommandPool(gpu->device, &pool, NULL, &gpu->pool), "vkCreateCommandPool");
}

static void close_vulkan(sdk_gpu_t *base)
{
    sdk_vk_t *gpu = (sdk_vk_t *)base;
    if (gpu->device != NULL && gpu->vk.DestroyDevice != NULL) {
        if (gpu->vk.QueueWaitIdle != NULL && gpu->queue != NULL) {
            (void)gpu->vk.QueueWaitIdle(gpu->queue);
        }
        while (gpu->recordings != NULL) {
            sdk_vk_free_recording(base, gpu->recordings);
        }
        while (gpu->kernels != NULL) {
            sdk_vk_free_kernel(base, (sdk_gpu_kernel_t)(uintptr_t)gpu->kernels);
        }
        while (gpu->buffers != NULL) {
            sdk_vk_free_buffer(base, (sdk_gpu_buffer_t)(uintptr_t)gpu->buffers);
        }
        if (gpu->staging.buffer != 0u) {
            sdk_vk_unmake(gpu, &gpu->staging);
        }
        if (gpu->pool != 0u) { /* and its command buffers */
            gpu->vk.DestroyCommandPool(gpu->device, gpu->pool, NULL);
        }
        gpu->vk.DestroyDevice(gpu->device, NULL);
    }
    stop(gpu);
}

static const sdk_gpu_driver_t driver = {
    "vulkan",
    close_vulkan,
    sdk_vk_buffer,
    sdk_vk_share,
    sdk_vk_turn,
    sdk_vk_free_buffer,
    sdk_vk_write,
    sdk_vk_read,
    sdk_vk_kernel,
    sdk_vk_binary,
    sdk_vk_free_kernel,
    sdk_vk_recording,
    sdk_vk_free_recording,
    sdk_vk_record_begin,
    sdk_vk_record_dispatch,
    sdk_vk_record_barrier,
    sdk_vk_record_end,
    sdk_vk_submit,
    sdk_vk_wait,
    sdk_vk_times,
};

static int choose(sdk_vk_t *gpu, int32_t index, facts_t *facts)
{
    vk_obj_t devices[MAX_DEVICES];
    uint32_t count = 0u;
    int status = devices_of(gpu, devices, &count);
    if (status != SDK_GPU_OK) {
        return status;
    }
    uint32_t at = index < 0 ? 0u : (uint32_t)index;
    if (at >= count) {
        return fail(gpu, SDK_GPU_E_DEVICE, "there is no such Vulkan device that computes");
    }
    gpu->physical = devices[at];
    (void)look(gpu, gpu->physical, facts);
    tell(facts, &gpu->base.device, &gpu->base.limits);
    gpu->family = facts->family;
    gpu->stamp_bits = facts->stamp_bits;
    gpu->stamp_ns = (double)facts->properties.properties.limits.timestamp_ns;
    gpu->alignment = facts->properties.properties.limits.storage_alignment;
    gpu->alignment = gpu->alignment == 0u ? 1u : gpu->alignment;
    gpu->memory = facts->memory;
    if (gpu->base.limits.shared_memory && facts->host.alignment <= page_bytes()) { /* the rest of a page is there */
        gpu->page = facts->host.alignment;
    }
    return open_device(gpu, facts);
}

int sdk_gpu_open_vulkan(int32_t index, sdk_gpu_t **out, char message[512])
{
    int status;
    if (out == NULL) {
        return SDK_GPU_E_ARG;
    }
    *out = NULL;
    sdk_vk_t *gpu = begin(message, &status);
    facts_t *facts = status == SDK_GPU_OK ? calloc(1, sizeof *facts) : NULL;
    if (status == SDK_GPU_OK) {
        status = facts == NULL ? fail(gpu, SDK_GPU_E_MEMORY, "memory of the host is out") : choose(gpu, index, facts);
    }
    free(facts);
    if (status == SDK_GPU_OK) {
        gpu->base.driver = &driver;
        *out = &gpu->base;
        return SDK_GPU_OK;
    }
    if (gpu == NULL) {
        return status;
    }
    if (message != NULL) {
        memcpy(message, gpu->base.message, sizeof gpu->base.message);
    }
    close_vulkan(&gpu->base);
    return status;
}
