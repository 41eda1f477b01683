/* A Vulkan library between a program and the real one, which lies as LIE says: "kernel=N" (what dispatches of the N-th
   pipeline write is lost), "build=N" (the N-th pipeline is not made), "limits" (groups of one item), "bindings" (four),
   "range=N" (bindings of N bytes), "types" (no bytes and no 64-bit integers in kernels), "times" (no time stamps), "memory" (none is to be had), "lost=N" (the N-th wait
   finds the device gone), "old" (Vulkan 1.0), "crash=N" (making the N-th pipeline ends the program), "apart" (the device has
   memory of its own, which the host does not see), "taken" (none of the host's is the device's), "keeps" (the driver keeps a
   copy of the host's memory, and never moves it). */
#define _GNU_SOURCE
#include "sdk_rt_gpu_vulkan_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_LOST (-4)
#define NO_SUCH_HANDLE (-1000072003)
#define DISCRETE 2u

typedef void *(*get_t)(vk_obj_t, const char *);
static struct {
    get_t instance, device;
    vk_obj_t held;
    vk_handle_t bound, wrong;
    int pipelines, waits;
    unsigned copies;
    unsigned created; /* objects, but for sets of descriptors, for which pools have room */
    int live;         /* objects that were made and not destroyed, but for what goes with its pool */
} state;

unsigned lying_created(void);
unsigned lying_copies(void);
int lying_live(void);
void lying_again(void);

int lying_live(void)
{
    return state.live;
}

/* Numbers of lies count from here. */
void lying_again(void)
{
    state.pipelines = state.waits = 0;
}

static int noted(int result)
{
    state.live += result == 0;
    return result;
}

unsigned lying_copies(void)
{
    return state.copies;
}

unsigned lying_created(void)
{
    return state.created;
}

static const char *lie(const char *kind)
{
    const char *const told = getenv("LIE");
    const size_t length = strlen(kind);
    if (told == NULL || strncmp(told, kind, length) != 0) {
        return NULL;
    }
    return told[length] == '=' ? told + length + 1 : told[length] == '\0' ? "" : NULL;
}

static int is(const char *kind, int number)
{
    const char *value = lie(kind);
    return value != NULL && atoi(value) == number;
}

/* `to` is the real function of this name. */
#define REAL(get, from, name, type, parameters) \
    type(*to) parameters;                       \
    void *const found = (get)(from, name);      \
    memcpy((void *)&to, &found, sizeof to)

static int lying_version(uint32_t *version)
{
    *version = lie("old") ? 1u << 22 : (uint32_t)VK_API_1_1;
    return 0;
}

static int lying_instance(const vk_instance_info_t *info, const void *how, vk_obj_t *out)
{
    REAL(state.instance, NULL, "vkCreateInstance", int, (const vk_instance_info_t *, const void *, vk_obj_t *));
    int result = noted(to(info, how, out));
    state.held = *out;
    return result;
}

static void lying_properties(vk_obj_t device, vk_properties2_t *out)
{
    REAL(state.instance, state.held, "vkGetPhysicalDeviceProperties2", void, (vk_obj_t, vk_properties2_t *));
    to(device, out);
    if (lie("limits")) {
        out->properties.limits.group_items = 1u;
    }
    if (lie("apart")) {
        out->properties.kind = DISCRETE;
    }
    if (lie("range") != NULL) {
        out->properties.limits.storage_range = (uint32_t)atoi(lie("range"));
    }
    if (lie("bindings")) {
        out->properties.limits.stage_storage_buffers = 4u;
    }
}

static void lying_features(vk_obj_t device, vk_features2_t *out)
{
    REAL(state.instance, state.held, "vkGetPhysicalDeviceFeatures2", void, (vk_obj_t, vk_features2_t *));
    to(device, out);
    if (lie("types")) {
        vk_features_narrow_t *next = out->next;
        out->features.i64 = 0u;
        for (; next != NULL; next = next->next) {
            next->storage = 0u;
        }
    }
}

static void lying_families(vk_obj_t device, uint32_t *count, vk_queue_family_t *out)
{
    REAL(state.instance, state.held, "vkGetPhysicalDeviceQueueFamilyProperties", void,
         (vk_obj_t, uint32_t *, vk_queue_family_t *));
    to(device, count, out);
    for (uint32_t k = 0; out != NULL && lie("times") && k < *count; ++k) {
        out[k].timestamp_bits = 0u;
    }
}

static int lying_memory(vk_obj_t device, const vk_memory_info_t *info, const void *how, vk_handle_t *out)
{
    REAL(state.device, device, "vkAllocateMemory", int,
         (vk_obj_t, const vk_memory_info_t *, const void *, vk_handle_t *));
    vk_memory_info_t plain = *info;
    ++state.created;
    plain.memory_type = lie("apart") ? 0u : plain.memory_type;
    if (lie("taken") && plain.next != NULL) {
        return NO_SUCH_HANDLE;
    }
    plain.next = lie("keeps") ? NULL : plain.next;
    return lie("memory") ? VK_OUT_OF_DEVICE_MEMORY : noted(to(device, &plain, how, out));
}

/* Of two types of memory the host sees the second one: both are the real first one. */
static void lying_memory_types(vk_obj_t device, vk_memory_properties_t *out)
{
    REAL(state.instance, state.held, "vkGetPhysicalDeviceMemoryProperties", void, (vk_obj_t, vk_memory_properties_t *));
    to(device, out);
    if (lie("apart")) {
        out->type_count = 2u;
        out->types[1] = out->types[0];
        out->types[0].flags = VK_MEMORY_DEVICE_LOCAL;
        out->types[1].flags &= ~(uint32_t)VK_MEMORY_DEVICE_LOCAL;
    }
}

static void (*real_requirements)(vk_obj_t, vk_handle_t, vk_requirements_t *);
static void lying_requirements(vk_obj_t device, vk_handle_t buffer, vk_requirements_t *out)
{
    real_requirements(device, buffer, out);
    out->types = lie("apart") ? 3u : out->types;
}

static void (*real_copy)(vk_obj_t, vk_handle_t, vk_handle_t, uint32_t, const vk_copy_t *);
static void counted_copy(vk_obj_t commands, vk_handle_t from, vk_handle_t to, uint32_t count, const vk_copy_t *parts)
{
    ++state.copies;
    real_copy(commands, from, to, count, parts);
}

static int lying_pipelines(vk_obj_t device, vk_handle_t cache, uint32_t count, const vk_pipeline_info_t *info,
                           const void *how, vk_handle_t *out)
{
    REAL(state.device, device, "vkCreateComputePipelines", int,
         (vk_obj_t, vk_handle_t, uint32_t, const vk_pipeline_info_t *, const void *, vk_handle_t *));
    int number = ++state.pipelines;
    ++state.created;
    if (is("crash", number)) {
        abort();
    }
    if (is("build", number)) {
        *out = 0u;
        return -3;
    }
    int result = noted(to(device, cache, count, info, how, out));
    state.wrong = is("kernel", number) ? *out : state.wrong;
    return result;
}

#define COUNTED(name)                                                                                            \
    static int (*real_##name)(vk_obj_t, const void *, const void *, vk_handle_t *);                              \
    static int counted_##name(vk_obj_t device, const void *info, const void *how, vk_handle_t *out)              \
    {                                                                                                            \
        ++state.created;                                                                                         \
        return noted(real_##name(device, info, how, out));                                                       \
    }
#define DESTROYED(name)                                                                                          \
    static void (*real_##name)(vk_obj_t, vk_handle_t, const void *);                                             \
    static void counted_##name(vk_obj_t device, vk_handle_t object, const void *how)                             \
    {                                                                                                            \
        state.live -= object != 0u;                                                                              \
        real_##name(device, object, how);                                                                        \
    }
COUNTED(vkCreateBuffer)
COUNTED(vkCreateShaderModule)
COUNTED(vkCreateDescriptorSetLayout)
COUNTED(vkCreatePipelineLayout)
COUNTED(vkCreatePipelineCache)
COUNTED(vkCreateDescriptorPool)
COUNTED(vkCreateCommandPool)
COUNTED(vkCreateQueryPool)
COUNTED(vkCreateFence)
COUNTED(vkCreateSemaphore)
COUNTED(vkCreateEvent)
DESTROYED(vkDestroyBuffer)
DESTROYED(vkDestroyShaderModule)
DESTROYED(vkDestroyDescriptorSetLayout)
DESTROYED(vkDestroyPipelineLayout)
DESTROYED(vkDestroyPipelineCache)
DESTROYED(vkDestroyDescriptorPool)
DESTROYED(vkDestroyCommandPool)
DESTROYED(vkDestroyQueryPool)
DESTROYED(vkDestroyFence)
DESTROYED(vkDestroySemaphore)
DESTROYED(vkDestroyEvent)
DESTROYED(vkDestroyPipeline)
DESTROYED(vkFreeMemory)

static int (*real_commands)(vk_obj_t, const void *, vk_obj_t *);
static int counted_commands(vk_obj_t device, const void *info, vk_obj_t *out)
{
    ++state.created;
    return real_commands(device, info, out);
}

static int lying_device(vk_obj_t physical, const vk_device_info_t *info, const void *how, vk_obj_t *out)
{
    REAL(state.instance, state.held, "vkCreateDevice", int,
         (vk_obj_t, const vk_device_info_t *, const void *, vk_obj_t *));
    return noted(to(physical, info, how, out));
}

/* Of a device or an instance. */
static void (*real_end[2])(vk_obj_t, const void *);
static void counted_device_end(vk_obj_t device, const void *how)
{
    state.live -= device != NULL;
    real_end[0](device, how);
}

static void counted_instance_end(vk_obj_t instance, const void *how)
{
    state.live -= instance != NULL;
    real_end[1](instance, how);
}

/* These two get the device's function from what was noted when the device was asked for them. */
static void (*real_bind)(vk_obj_t, uint32_t, vk_handle_t);
static void (*real_dispatch)(vk_obj_t, uint32_t, uint32_t, uint32_t);
static int (*real_wait)(vk_obj_t);

static void lying_bind(vk_obj_t commands, uint32_t point, vk_handle_t pipeline)
{
    state.bound = pipeline;
    real_bind(commands, point, pipeline);
}

static void lying_dispatch(vk_obj_t commands, uint32_t x, uint32_t y, uint32_t z)
{
    if (state.wrong == 0u || state.bound != state.wrong) {
        real_dispatch(commands, x, y, z);
    }
}

static int lying_wait(vk_obj_t queue)
{
    const char *lost = lie("lost");
    int result = real_wait(queue);
    return lost != NULL && ++state.waits >= atoi(lost) ? DEVICE_LOST : result;
}

static void *function(void *found)
{
    return found;
}
#define AS_POINTER(name) function(*(void **)&(void *(*)(void)){(void *(*)(void))(name)})

static void *lying_device_function(vk_obj_t device, const char *name)
{
    void *const found = state.device(device, name);
    if (strcmp(name, "vkAllocateMemory") == 0) {
        return AS_POINTER(lying_memory);
    }
    if (strcmp(name, "vkCreateComputePipelines") == 0) {
        return AS_POINTER(lying_pipelines);
    }
    if (strcmp(name, "vkCmdBindPipeline") == 0) {
        memcpy((void *)&real_bind, &found, sizeof found);
        return AS_POINTER(lying_bind);
    }
    if (strcmp(name, "vkCmdDispatch") == 0) {
        memcpy((void *)&real_dispatch, &found, sizeof found);
        return AS_POINTER(lying_dispatch);
    }
    if (strcmp(name, "vkGetBufferMemoryRequirements") == 0) {
        memcpy((void *)&real_requirements, &found, sizeof found);
        return AS_POINTER(lying_requirements);
    }
    if (strcmp(name, "vkCmdCopyBuffer") == 0) {
        memcpy((void *)&real_copy, &found, sizeof found);
        return AS_POINTER(counted_copy);
    }
    if (strcmp(name, "vkQueueWaitIdle") == 0) {
        memcpy((void *)&real_wait, &found, sizeof found);
        return AS_POINTER(lying_wait);
    }
#define RETURN_COUNTED(called)                                     \
    if (strcmp(name, #called) == 0) {                              \
        memcpy((void *)&real_##called, &found, sizeof found);      \
        return AS_POINTER(counted_##called);                       \
    }
    RETURN_COUNTED(vkCreateBuffer)
    RETURN_COUNTED(vkCreateShaderModule)
    RETURN_COUNTED(vkCreateDescriptorSetLayout)
    RETURN_COUNTED(vkCreatePipelineLayout)
    RETURN_COUNTED(vkCreatePipelineCache)
    RETURN_COUNTED(vkCreateDescriptorPool)
    RETURN_COUNTED(vkCreateCommandPool)
    RETURN_COUNTED(vkCreateQueryPool)
    RETURN_COUNTED(vkCreateFence)
    RETURN_COUNTED(vkCreateSemaphore)
    RETURN_COUNTED(vkCreateEvent)
    RETURN_COUNTED(vkDestroyBuffer)
    RETURN_COUNTED(vkDestroyShaderModule)
    RETURN_COUNTED(vkDestroyDescriptorSetLayout)
    RETURN_COUNTED(vkDestroyPipelineLayout)
    RETURN_COUNTED(vkDestroyPipelineCache)
    RETURN_COUNTED(vkDestroyDescriptorPool)
    RETURN_COUNTED(vkDestroyCommandPool)
    RETURN_COUNTED(vkDestroyQueryPool)
    RETURN_COUNTED(vkDestroyFence)
    RETURN_COUNTED(vkDestroySemaphore)
    RETURN_COUNTED(vkDestroyEvent)
    RETURN_COUNTED(vkDestroyPipeline)
    RETURN_COUNTED(vkFreeMemory)
    if (strcmp(name, "vkDestroyDevice") == 0) {
        memcpy((void *)&real_end[0], &found, sizeof found);
        return AS_POINTER(counted_device_end);
    }
    if (strcmp(name, "vkAllocateCommandBuffers") == 0) {
        memcpy((void *)&real_commands, &found, sizeof found);
        return AS_POINTER(counted_commands);
    }
    return found;
}

void *vkGetInstanceProcAddr(vk_obj_t instance, const char *name);

void *vkGetInstanceProcAddr(vk_obj_t instance, const char *name)
{
    if (state.instance == NULL) {
        void *library = dlopen(getenv("REAL_VULKAN"), RTLD_NOW | RTLD_LOCAL);
        void *first = library == NULL ? NULL : dlsym(library, "vkGetInstanceProcAddr");
        if (first == NULL) {
            return NULL;
        }
        memcpy((void *)&state.instance, &first, sizeof first);
    }
    void *const found = state.instance(instance, name);
    if (strcmp(name, "vkEnumerateInstanceVersion") == 0) {
        return AS_POINTER(lying_version);
    }
    if (strcmp(name, "vkCreateInstance") == 0) {
        return AS_POINTER(lying_instance);
    }
    if (strcmp(name, "vkCreateDevice") == 0) {
        return AS_POINTER(lying_device);
    }
    if (strcmp(name, "vkDestroyInstance") == 0) {
        memcpy((void *)&real_end[1], &found, sizeof found);
        return AS_POINTER(counted_instance_end);
    }
    if (strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) {
        return AS_POINTER(lying_properties);
    }
    if (strcmp(name, "vkGetPhysicalDeviceFeatures2") == 0) {
        return AS_POINTER(lying_features);
    }
    if (strcmp(name, "vkGetPhysicalDeviceMemoryProperties") == 0) {
        return AS_POINTER(lying_memory_types);
    }
    if (strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties") == 0) {
        return AS_POINTER(lying_families);
    }
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        memcpy((void *)&state.device, &found, sizeof found);
        return AS_POINTER(lying_device_function);
    }
    return found;
}
