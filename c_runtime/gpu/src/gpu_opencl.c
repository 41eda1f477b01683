/* The OpenCL driver of sdk_rt_gpu.h: any OpenCL of version 1.2 or later. Its library is opened at run time. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include "sdk_rt_gpu_opencl.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

/* ---- the library ---- */

static const char *const LIBRARIES[] = {
#if defined(_WIN32)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
#endif
};

static void *library(void)
{
    static void *found; /* it stays open: drivers do not like to be unloaded */
    for (size_t k = 0; found == NULL && k < sizeof LIBRARIES / sizeof *LIBRARIES; ++k) {
#if defined(_WIN32)
        found = (void *)LoadLibraryA(LIBRARIES[k]);
#else
        found = dlopen(LIBRARIES[k], RTLD_NOW | RTLD_LOCAL);
#endif
    }
    return found;
}

static void *symbol(void *from, const char *name)
{
#if defined(_WIN32)
    return (void *)GetProcAddress((HMODULE)from, name);
#else
    return dlsym(from, name);
#endif
}

static int load(cl_functions_t *cl, char message[512])
{
    static const char NAMES[] = {
#define NAME(type, name, parameters) "cl" #name "\0"
        CL_FUNCTIONS(NAME)
#undef NAME
    };
    uint8_t *place = (uint8_t *)cl; /* pointers to functions in the order of the names */
    void *const from = library();
    if (from == NULL) {
        snprintf(message, 512, "no OpenCL library is installed: %s was not found", LIBRARIES[0]);
        return SDK_GPU_E_LIBRARY;
    }
    for (const char *name = NAMES; *name != '\0'; name += strlen(name) + 1u, place += sizeof(void *)) {
        void *const address = symbol(from, name);
        if (address == NULL) {
            snprintf(message, 512, "the OpenCL library has no %s", name);
            return SDK_GPU_E_LIBRARY;
        }
        memcpy(place, &address, sizeof address);
    }
    return SDK_GPU_OK;
}

/* ---- devices ---- */

static void text_of(const cl_functions_t *cl, cl_object_t device, uint32_t what, char *out, size_t max)
{
    char text[1024] = "";
    out[0] = '\0';
    if (cl->GetDeviceInfo(device, what, sizeof text, text, NULL) == CL_OK) {
        text[sizeof text - 1u] = '\0';
        snprintf(out, max, "%.*s", (int)(max - 1u), text);
    }
}

static uint64_t number_of(const cl_functions_t *cl, cl_object_t device, uint32_t what, size_t bytes)
{
    uint64_t wide = 0u;
    uint32_t word = 0u;
    if (bytes == sizeof word) {
        return cl->GetDeviceInfo(device, what, sizeof word, &word, NULL) == CL_OK ? word : 0u;
    }
    return cl->GetDeviceInfo(device, what, sizeof wide, &wide, NULL) == CL_OK ? wide : 0u;
}

static uint64_t size_of(const cl_functions_t *cl, cl_object_t device, uint32_t what)
{
    size_t value = 0u;
    return cl->GetDeviceInfo(device, what, sizeof value, &value, NULL) == CL_OK ? value : 0u;
}

static void describe(const cl_functions_t *cl, cl_object_t device, sdk_gpu_device_t *out, sdk_gpu_limits_t *limits)
{
    char driver[64], version[64], extensions[4096];
    size_t items[8] = {0};
    uint64_t local;
    memset(out, 0, sizeof *out);
    memset(limits, 0, sizeof *limits);
    text_of(cl, device, CL_NAME, out->name, sizeof out->name);
    text_of(cl, device, CL_VENDOR, out->vendor, sizeof out->vendor);
    text_of(cl, device, CL_DRIVER, driver, sizeof driver);
    text_of(cl, device, CL_VERSION, version, sizeof version);
    snprintf(out->driver, sizeof out->driver, "%.60s, %.60s", version, driver);
    out->software = (number_of(cl, device, CL_TYPE, 8u) & CL_TYPE_CPU) != 0u;
    limits->buffer_bytes = number_of(cl, device, CL_MAX_BUFFER, 8u);
    limits->allocation_bytes = limits->buffer_bytes;
    limits->memory_bytes = number_of(cl, device, CL_MEMORY, 8u);
    local = number_of(cl, device, CL_LOCAL_MEMORY, 8u);
    limits->local_bytes = local > UINT32_MAX ? UINT32_MAX : (uint32_t)local;
    limits->group_items = (uint32_t)size_of(cl, device, CL_GROUP_SIZE);
    if (cl->GetDeviceInfo(device, CL_ITEM_SIZES, sizeof items, items, NULL) == CL_OK) {
        for (int k = 0; k < 3; ++k) {
            limits->group[k] = (uint32_t)items[k];
        }
    }
    limits->operands = SDK_GPU_OPERANDS;
    limits->tick_ps = (uint32_t)size_of(cl, device, CL_TICK) * 1000u;
    limits->tick_ps = limits->tick_ps == 0u ? 1000u : limits->tick_ps; /* every OpenCL device has time stamps */
    limits->f64 = number_of(cl, device, CL_DOUBLES, 8u) != 0u;
    limits->bytes = 1u;
    limits->i64 = 1u;
    limits->shared_memory = number_of(cl, device, CL_UNIFIED, 4u) != 0u;
    extensions[0] = '\0';
    if (cl->GetDeviceInfo(device, CL_EXTENSIONS_, sizeof extensions - 1u, extensions, NULL) == CL_OK) {
        extensions[sizeof extensions - 1u] = '\0';
        limits->f16 = strstr(extensions, "cl_khr_fp16") != NULL;
        limits->dot = strstr(extensions, "cl_khr_integer_dot_product") != NULL;
    }
}

/* Calls visit(user, platform, device) for every device that can run kernels until it returns nonzero. */
static int each_device(const cl_functions_t *cl, int (*visit)(void *user, cl_object_t platform, cl_object_t device), void *user,
                       char message[512])
{
    cl_object_t platforms[16], devices[16];
    uint32_t platform_count = 0u;
    const int32_t code = cl->GetPlatformIDs(16u, platforms, &platform_count);
    if (code == CL_NO_PLATFORM || code == CL_NOT_FOUND) {
        return SDK_GPU_OK; /* a loader with nothing to load */
    }
    if (code != CL_OK) {
        snprintf(message, 512, "clGetPlatformIDs failed with OpenCL error %ld", (long)code);
        return SDK_GPU_E_DRIVER;
    }
    for (uint32_t p = 0; p < platform_count && p < 16u; ++p) {
        uint32_t count = 0u;
        if (cl->GetDeviceIDs(platforms[p], CL_TYPE_ALL, 16u, devices, &count) != CL_OK) {
            continue;
        }
        for (uint32_t d = 0; d < count && d < 16u; ++d) {
            if (number_of(cl, devices[d], CL_AVAILABLE, 4u) == 0u || number_of(cl, devices[d], CL_COMPILES, 4u) == 0u) {
                continue;
            }
            if (visit(user, platforms[p], devices[d])) {
                return SDK_GPU_OK;
            }
        }
    }
    return SDK_GPU_OK;
}

typedef struct {
    const cl_functions_t *cl;
    sdk_gpu_device_t *out;
    sdk_gpu_limits_t *limits;
    uint32_t max, count;
} listing_t;

static int listed(void *user, cl_object_t platform, cl_object_t device)
{
    listing_t *const list = user;
    sdk_gpu_device_t what;
    sdk_gpu_limits_t limits;
    (void)platform;
    if (list->count < list->max) {
        describe(list->cl, device, &what, &limits);
        if (list->out != NULL) {
            list->out[list->count] = what;
        }
        if (list->limits != NULL) {
            list->limits[list->count] = limits;
        }
    }
    ++list->count;
    return 0;
}

int sdk_gpu_list_opencl(sdk_gpu_device_t *out, sdk_gpu_limits_t *limits, uint32_t max, uint32_t *count, char message[512])
{
    char nowhere[512];
    cl_functions_t cl;
    listing_t list = {&cl, out, limits, max, 0u};
    int status;
    if (count == NULL) {
        return SDK_GPU_E_ARG;
    }
    *count = 0u;
    message = message == NULL ? nowhere : message;
    status = load(&cl, message);
    if (status == SDK_GPU_OK) {
        status = each_device(&cl, listed, &list, message);
        *count = list.count;
    }
    return status;
}

typedef struct {
    const cl_functions_t *cl;
    int32_t wanted, at;
    cl_object_t platform, device;
    int software;
} choice_t;

static int chosen(void *user, cl_object_t platform, cl_object_t device)
{
    choice_t *const choice = user;
    const int software = (number_of(choice->cl, device, CL_TYPE, 8u) & CL_TYPE_CPU) != 0u;
    const int take = choice->wanted < 0 ? choice->device == NULL || (choice->software && !software)
                                        : choice->at == choice->wanted;
    if (take) {
        choice->platform = platform;
        choice->device = device;
        choice->software = software;
    }
    ++choice->at;
    return 0;
}

void sdk_gpu_opencl_close(sdk_gpu_t *gpu)
{
    opencl_t *const self = (opencl_t *)gpu;
    if (self->queue != NULL) {
        self->cl.Finish(self->queue);
        self->cl.ReleaseCommandQueue(self->queue);
    }
    if (self->context != NULL) {
        self->cl.ReleaseContext(self->context);
    }
    free(self);
}

int sdk_gpu_open_opencl(int32_t index, sdk_gpu_t **out, char message[512])
{
    char nowhere[512];
    opencl_t *self;
    choice_t choice = {NULL, index, 0, NULL, NULL, 0};
    int32_t code = CL_OK;
    int status;
    if (out == NULL) {
        return SDK_GPU_E_ARG;
    }
    *out = NULL;
    message = message == NULL ? nowhere : message;
    self = calloc(1u, sizeof *self);
    if (self == NULL) {
        snprintf(message, 512, "no memory of the host is left");
        return SDK_GPU_E_MEMORY;
    }
    self->gpu.driver = &sdk_gpu_opencl;
    choice.cl = &self->cl;
    status = load(&self->cl, message);
    if (status == SDK_GPU_OK) {
        status = each_device(&self->cl, chosen, &choice, message);
    }
    if (status == SDK_GPU_OK && choice.device == NULL) {
        snprintf(message, 512, "OpenCL has no device%s: %ld found", index < 0 ? "" : " of that number", (long)choice.at);
        status = SDK_GPU_E_DEVICE;
    }
    if (status == SDK_GPU_OK) {
        const cl_properties_t properties[] = {CL_CONTEXT_PLATFORM_, (cl_properties_t)choice.platform, 0};
        self->device = choice.device;
        describe(&self->cl, self->device, &self->gpu.device, &self->gpu.limits);
        self->context = self->cl.CreateContext(properties, 1u, &self->device, NULL, NULL, &code);
        if (self->context != NULL && code == CL_OK) {
            self->queue = self->cl.CreateCommandQueue(self->context, self->device, CL_PROFILING, &code);
        }
        if (self->queue == NULL || code != CL_OK) {
            status = failed(self, self->context == NULL ? "clCreateContext" : "clCreateCommandQueue", code);
            status = status == SDK_GPU_E_MEMORY ? status : SDK_GPU_E_DEVICE;
            memcpy(message, self->gpu.message, sizeof self->gpu.message);
        }
    }
    if (status != SDK_GPU_OK) {
        sdk_gpu_opencl_close(&self->gpu);
        return status;
    }
    *out = &self->gpu;
    return SDK_GPU_OK;
}
