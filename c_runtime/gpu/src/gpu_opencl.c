/* The OpenCL driver of sdk_rt_gpu.h: any OpenCL of version 1.2 or later. Its library is opened at run time; what is used of
   it is declared here, as the standard has it. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include "sdk_rt_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#define CL_CALL __stdcall
#else
#include <dlfcn.h>
#define CL_CALL
#endif

/* ---- of the OpenCL 1.2 specification ---- */

typedef struct cl_object *cl_object_t; /* platforms, devices, contexts, queues, memory, programs, kernels, events */
typedef intptr_t cl_properties_t;

enum {
    CL_OK = 0,
    CL_NOT_FOUND = -1,
    CL_NOT_AVAILABLE = -2,
    CL_NO_BUFFER = -4,
    CL_NO_RESOURCES = -5,
    CL_NO_HOST_MEMORY = -6,
    CL_NO_PROFILING = -7,
    CL_EVENT_FAILED = -14,
    CL_BAD_QUEUE = -36,
    CL_NO_PLATFORM = -1001
};
enum {
    CL_PLATFORM_VERSION_ = 0x0901,
    CL_TYPE = 0x1000,
    CL_ITEM_SIZES = 0x1005,
    CL_GROUP_SIZE = 0x1004,
    CL_MOST_BUFFER = 0x1010,
    CL_MEMORY = 0x101F,
    CL_LOCAL_MEMORY = 0x1023,
    CL_TICK = 0x1025,
    CL_AVAILABLE = 0x1027,
    CL_COMPILES = 0x1028,
    CL_NAME = 0x102B,
    CL_VENDOR = 0x102C,
    CL_DRIVER = 0x102D,
    CL_VERSION = 0x102F,
    CL_EXTENSIONS_ = 0x1030,
    CL_DOUBLES = 0x1032,
    CL_UNIFIED = 0x1035
};
#define CL_TYPE_CPU 2u
#define CL_TYPE_ALL 0xFFFFFFFFu
#define CL_PROFILING 2u
#define CL_READ_WRITE 1u
#define CL_HOST_MEMORY 16u
#define CL_KERNEL_GROUP_SIZE 0x11B0u
#define CL_BUILD_LOG 0x1183u
#define CL_STARTED 0x1282u
#define CL_ENDED 0x1283u
#define CL_CONTEXT_PLATFORM_ 0x1084

#define CL_FUNCTIONS(F) \
    F(int32_t, GetPlatformIDs, (uint32_t, cl_object_t *, uint32_t *)) \
    F(int32_t, GetPlatformInfo, (cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(int32_t, GetDeviceIDs, (cl_object_t, uint64_t, uint32_t, cl_object_t *, uint32_t *)) \
    F(int32_t, GetDeviceInfo, (cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(cl_object_t, CreateContext, (const cl_properties_t *, uint32_t, const cl_object_t *, void (*)(void), void *, int32_t *)) \
    F(cl_object_t, CreateCommandQueue, (cl_object_t, cl_object_t, uint64_t, int32_t *)) \
    F(cl_object_t, CreateBuffer, (cl_object_t, uint64_t, size_t, void *, int32_t *)) \
    F(cl_object_t, CreateProgramWithSource, (cl_object_t, uint32_t, const char **, const size_t *, int32_t *)) \
    F(int32_t, BuildProgram, (cl_object_t, uint32_t, const cl_object_t *, const char *, void (*)(void), void *)) \
    F(int32_t, GetProgramBuildInfo, (cl_object_t, cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(cl_object_t, CreateKernel, (cl_object_t, const char *, int32_t *)) \
    F(int32_t, SetKernelArg, (cl_object_t, uint32_t, size_t, const void *)) \
    F(int32_t, GetKernelWorkGroupInfo, (cl_object_t, cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(int32_t, EnqueueNDRangeKernel, (cl_object_t, cl_object_t, uint32_t, const size_t *, const size_t *, const size_t *, \
                                      uint32_t, const cl_object_t *, cl_object_t *)) \
    F(int32_t, EnqueueWriteBuffer, (cl_object_t, cl_object_t, uint32_t, size_t, size_t, const void *, uint32_t, \
                                    const cl_object_t *, cl_object_t *)) \
    F(int32_t, EnqueueReadBuffer, (cl_object_t, cl_object_t, uint32_t, size_t, size_t, void *, uint32_t, \
                                   const cl_object_t *, cl_object_t *)) \
    F(int32_t, Flush, (cl_object_t)) \
    F(int32_t, Finish, (cl_object_t)) \
    F(int32_t, GetEventProfilingInfo, (cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(int32_t, ReleaseEvent, (cl_object_t)) \
    F(int32_t, ReleaseKernel, (cl_object_t)) \
    F(int32_t, ReleaseProgram, (cl_object_t)) \
    F(int32_t, ReleaseMemObject, (cl_object_t)) \
    F(int32_t, ReleaseCommandQueue, (cl_object_t)) \
    F(int32_t, ReleaseContext, (cl_object_t))

typedef struct {
#define MEMBER(type, name, parameters) type(CL_CALL *name) parameters;
    CL_FUNCTIONS(MEMBER)
#undef MEMBER
} cl_functions_t;

/* ---- the driver's own records ---- */

typedef struct {
    sdk_gpu_t gpu; /* first: this is what others see */
    cl_functions_t cl;
    cl_object_t device, context, queue;
} opencl_t;

typedef struct {
    cl_object_t program;
    const char *name;
} opencl_kernel_t;

typedef struct {
    cl_object_t kernel, event;
    const opencl_kernel_t *made_of;
    size_t items[3], local[3];
    int empty;
} opencl_dispatch_t;

struct sdk_gpu_recording {
    uint32_t most, count;
    int timed;
    opencl_dispatch_t dispatches[];
};

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
    void *const from = library();
    if (from == NULL) {
        snprintf(message, 512, "no OpenCL library is installed: %s was not found", LIBRARIES[0]);
        return SDK_GPU_E_LIBRARY;
    }
#define LOAD(type, name, parameters)                                                                  \
    {                                                                                                 \
        void *const address = symbol(from, "cl" #name);                                               \
        if (address == NULL) {                                                                        \
            snprintf(message, 512, "the OpenCL library has no cl" #name);                             \
            return SDK_GPU_E_LIBRARY;                                                                 \
        }                                                                                             \
        memcpy(&cl->name, &address, sizeof address);                                                  \
    }
    CL_FUNCTIONS(LOAD)
#undef LOAD
    return SDK_GPU_OK;
}

/* ---- statuses ---- */

static int status_of(int32_t code)
{
    switch (code) {
    case CL_OK:
        return SDK_GPU_OK;
    case CL_NO_BUFFER:
    case CL_NO_HOST_MEMORY:
        return SDK_GPU_E_MEMORY;
    case CL_NOT_AVAILABLE:
    case CL_NO_RESOURCES:
    case CL_EVENT_FAILED:
    case CL_BAD_QUEUE:
        return SDK_GPU_E_LOST;
    default:
        return SDK_GPU_E_DRIVER;
    }
}

static int failed(opencl_t *self, const char *call, int32_t code)
{
    snprintf(self->gpu.message, sizeof self->gpu.message, "%s: %s failed with OpenCL error %ld", self->gpu.device.name, call,
             (long)code);
    return status_of(code);
}

static int out_of_memory(opencl_t *self)
{
    snprintf(self->gpu.message, sizeof self->gpu.message, "no memory of the host is left");
    return SDK_GPU_E_MEMORY;
}

/* ---- devices ---- */

static void text_of(const cl_functions_t *cl, cl_object_t device, uint32_t what, char *out, size_t most)
{
    char text[1024] = "";
    out[0] = '\0';
    if (cl->GetDeviceInfo(device, what, sizeof text, text, NULL) == CL_OK) {
        text[sizeof text - 1u] = '\0';
        snprintf(out, most, "%.*s", (int)(most - 1u), text);
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
    limits->buffer_bytes = number_of(cl, device, CL_MOST_BUFFER, 8u);
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
    uint32_t most, count;
} listing_t;

static int listed(void *user, cl_object_t platform, cl_object_t device)
{
    listing_t *const list = user;
    sdk_gpu_device_t what;
    sdk_gpu_limits_t limits;
    (void)platform;
    if (list->count < list->most) {
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

int sdk_gpu_list_opencl(sdk_gpu_device_t *out, sdk_gpu_limits_t *limits, uint32_t most, uint32_t *count, char message[512])
{
    char nowhere[512];
    cl_functions_t cl;
    listing_t list = {&cl, out, limits, most, 0u};
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

static void close_opencl(sdk_gpu_t *gpu)
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

/* ---- buffers ---- */

static cl_object_t object(uint64_t handle)
{
    return (cl_object_t)(uintptr_t)handle;
}

static int buffer_opencl(sdk_gpu_t *gpu, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    opencl_t *const self = (opencl_t *)gpu;
    int32_t code = CL_OK;
    cl_object_t made;
    if (bytes > SIZE_MAX) {
        return failed(self, "clCreateBuffer", CL_NO_BUFFER);
    }
    made = self->cl.CreateBuffer(self->context, CL_READ_WRITE | (gpu->limits.shared_memory ? CL_HOST_MEMORY : 0u),
                                 (size_t)bytes, NULL, &code);
    if (made == NULL || code != CL_OK) {
        const int status = failed(self, "clCreateBuffer", code == CL_OK ? CL_NO_BUFFER : code);
        return status == SDK_GPU_E_LOST && code == CL_NO_RESOURCES ? SDK_GPU_E_MEMORY : status;
    }
    *out = (uint64_t)(uintptr_t)made;
    return SDK_GPU_OK;
}

static void free_buffer_opencl(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer)
{
    ((opencl_t *)gpu)->cl.ReleaseMemObject(object(buffer));
}

static int write_opencl(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, const void *data, uint64_t bytes)
{
    opencl_t *const self = (opencl_t *)gpu;
    const int32_t code = self->cl.EnqueueWriteBuffer(self->queue, object(buffer), 1u, (size_t)offset, (size_t)bytes, data, 0u,
                                                     NULL, NULL);
    return code == CL_OK ? SDK_GPU_OK : failed(self, "clEnqueueWriteBuffer", code);
}

static int read_opencl(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, void *data, uint64_t bytes)
{
    opencl_t *const self = (opencl_t *)gpu;
    const int32_t code = self->cl.EnqueueReadBuffer(self->queue, object(buffer), 1u, (size_t)offset, (size_t)bytes, data, 0u,
                                                    NULL, NULL);
    return code == CL_OK ? SDK_GPU_OK : failed(self, "clEnqueueReadBuffer", code);
}

/* ---- kernels ---- */

/* A group of the kernel fits the device, and so does what it shares. */
static int fits(opencl_t *self, const sdk_gpu_code_t *code)
{
    const sdk_gpu_limits_t *const have = &self->gpu.limits;
    uint64_t items = 1u;
    for (int k = 0; k < 3; ++k) {
        items *= code->local[k];
        if (have->group[k] != 0u && code->local[k] > have->group[k]) {
            return 0;
        }
    }
    return (have->group_items == 0u || items <= have->group_items) && code->local_bytes <= have->local_bytes &&
           ((code->needs & SDK_GPU_NEEDS_F64) == 0u || have->f64) && ((code->needs & SDK_GPU_NEEDS_F16) == 0u || have->f16);
}

static void build_failed(opencl_t *self, cl_object_t program, const char *name)
{
    char log[400] = "";
    size_t bytes = 0u;
    char *whole = NULL;
    if (self->cl.GetProgramBuildInfo(program, self->device, CL_BUILD_LOG, 0u, NULL, &bytes) == CL_OK && bytes > 1u) {
        whole = malloc(bytes + 1u);
    }
    if (whole != NULL) {
        if (self->cl.GetProgramBuildInfo(program, self->device, CL_BUILD_LOG, bytes, whole, NULL) == CL_OK) {
            whole[bytes] = '\0';
            snprintf(log, sizeof log, "%s", whole);
        }
        free(whole);
    }
    snprintf(self->gpu.message, sizeof self->gpu.message, "%.60s does not compile %.40s: %.380s", self->gpu.device.name, name,
             log);
}

static int kernel_opencl(opencl_t *self, const sdk_gpu_code_t *code, sdk_gpu_kernel_t *out)
{
    int32_t status = CL_OK;
    size_t most = 0u;
    uint64_t items = (uint64_t)code->local[0] * code->local[1] * code->local[2];
    opencl_kernel_t *made;
    cl_object_t kernel;
    const char *text = code->text;
    if (code->text == NULL || code->operands > SDK_GPU_OPERANDS || code->words > SDK_GPU_WORDS || !fits(self, code)) {
        snprintf(self->gpu.message, sizeof self->gpu.message, "%s: %s asks for more than the device has", self->gpu.device.name,
                 code->name);
        return SDK_GPU_E_LIMIT;
    }
    made = calloc(1u, sizeof *made);
    if (made == NULL) {
        return out_of_memory(self);
    }
    made->name = code->name;
    made->program = self->cl.CreateProgramWithSource(self->context, 1u, &text, NULL, &status);
    if (made->program == NULL || status != CL_OK) {
        free(made);
        return failed(self, "clCreateProgramWithSource", status);
    }
    status = self->cl.BuildProgram(made->program, 1u, &self->device, "", NULL, NULL);
    if (status == CL_OK) {
        kernel = self->cl.CreateKernel(made->program, code->name, &status);
        if (kernel != NULL && status == CL_OK) {
            status = self->cl.GetKernelWorkGroupInfo(kernel, self->device, CL_KERNEL_GROUP_SIZE, sizeof most, &most, NULL);
            self->cl.ReleaseKernel(kernel);
            if (status == CL_OK && most < items) {
                self->cl.ReleaseProgram(made->program);
                free(made);
                snprintf(self->gpu.message, sizeof self->gpu.message, "%s: a group of %s has at most %lu items",
                         self->gpu.device.name, code->name, (unsigned long)most);
                return SDK_GPU_E_LIMIT;
            }
        }
    }
    if (status != CL_OK) {
        build_failed(self, made->program, code->name);
        self->cl.ReleaseProgram(made->program);
        free(made);
        return status_of(status) == SDK_GPU_E_MEMORY ? SDK_GPU_E_MEMORY : SDK_GPU_E_BUILD;
    }
    *out = (uint64_t)(uintptr_t)made;
    return SDK_GPU_OK;
}

static int kernels_opencl(sdk_gpu_t *gpu, const sdk_gpu_code_t *codes, uint32_t count, sdk_gpu_kernel_t *out)
{
    opencl_t *const self = (opencl_t *)gpu;
    char first[sizeof gpu->message] = "";
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; k < count; ++k) {
        const int one = kernel_opencl(self, &codes[k], &out[k]);
        if (one == SDK_GPU_E_LOST || one == SDK_GPU_E_MEMORY) {
            return one;
        }
        if (one != SDK_GPU_OK && status == SDK_GPU_OK) {
            status = one;
            memcpy(first, gpu->message, sizeof first);
        }
    }
    if (status != SDK_GPU_OK) {
        memcpy(gpu->message, first, sizeof first);
    }
    return status;
}

static void free_kernel_opencl(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel)
{
    opencl_kernel_t *const made = (opencl_kernel_t *)(uintptr_t)kernel;
    ((opencl_t *)gpu)->cl.ReleaseProgram(made->program);
    free(made);
}

/* ---- recordings: a kernel object with its arguments for each dispatch ---- */

static int recording_opencl(sdk_gpu_t *gpu, uint32_t dispatches, int timed, sdk_gpu_recording_t **out)
{
    sdk_gpu_recording_t *const made = calloc(1u, sizeof *made + dispatches * sizeof made->dispatches[0]);
    if (made == NULL) {
        return out_of_memory((opencl_t *)gpu);
    }
    made->most = dispatches;
    made->timed = timed;
    *out = made;
    return SDK_GPU_OK;
}

static void forget_events(opencl_t *self, sdk_gpu_recording_t *recording)
{
    for (uint32_t k = 0; k < recording->most; ++k) {
        if (recording->dispatches[k].event != NULL) {
            self->cl.ReleaseEvent(recording->dispatches[k].event);
            recording->dispatches[k].event = NULL;
        }
    }
}

static void free_recording_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    opencl_t *const self = (opencl_t *)gpu;
    forget_events(self, recording);
    for (uint32_t k = 0; k < recording->most; ++k) {
        if (recording->dispatches[k].kernel != NULL) {
            self->cl.ReleaseKernel(recording->dispatches[k].kernel);
        }
    }
    free(recording);
}

static int record_begin_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    (void)gpu;
    recording->count = 0u;
    return SDK_GPU_OK;
}

static int arguments(opencl_t *self, cl_object_t kernel, const sdk_gpu_code_t *code, const sdk_gpu_range_t *operands,
                     const int32_t *numbers)
{
    uint32_t at = 0u;
    for (uint32_t k = 0; k < code->operands; ++k) {
        const cl_object_t memory = object(operands[k].buffer);
        const int32_t offset = (int32_t)operands[k].offset;
        int32_t status = operands[k].offset > INT32_MAX ? CL_NO_BUFFER
                                                        : self->cl.SetKernelArg(kernel, at, sizeof memory, &memory);
        status = status == CL_OK ? self->cl.SetKernelArg(kernel, at + 1u, sizeof offset, &offset) : status;
        if (status != CL_OK) {
            return failed(self, "clSetKernelArg", status);
        }
        at += 2u;
    }
    for (uint32_t k = code->operands; k < code->words; ++k, ++at) {
        const int32_t status = self->cl.SetKernelArg(kernel, at, sizeof(int32_t), &numbers[k - code->operands]);
        if (status != CL_OK) {
            return failed(self, "clSetKernelArg", status);
        }
    }
    return SDK_GPU_OK;
}

static int record_dispatch_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                                  sdk_gpu_kernel_t kernel, const sdk_gpu_range_t *operands, const int32_t *numbers,
                                  const uint32_t groups[3])
{
    opencl_t *const self = (opencl_t *)gpu;
    const opencl_kernel_t *const made_of = (const opencl_kernel_t *)(uintptr_t)kernel;
    opencl_dispatch_t *one;
    if (recording->count >= recording->most) {
        snprintf(gpu->message, sizeof gpu->message, "a recording has room for %lu dispatches", (unsigned long)recording->most);
        return SDK_GPU_E_ARG;
    }
    one = &recording->dispatches[recording->count++];
    one->empty = groups[0] == 0u || groups[1] == 0u || groups[2] == 0u;
    if (one->kernel == NULL || one->made_of != made_of) {
        int32_t status = CL_OK;
        if (one->kernel != NULL) {
            self->cl.ReleaseKernel(one->kernel);
        }
        one->kernel = self->cl.CreateKernel(made_of->program, made_of->name, &status);
        one->made_of = made_of;
        if (one->kernel == NULL || status != CL_OK) {
            one->kernel = NULL;
            return failed(self, "clCreateKernel", status);
        }
    }
    for (int k = 0; k < 3; ++k) {
        one->local[k] = code->local[k];
        one->items[k] = (size_t)groups[k] * code->local[k];
    }
    return arguments(self, one->kernel, code, operands, numbers);
}

static int record_end_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    (void)gpu;
    (void)recording;
    return SDK_GPU_OK;
}

static int record_barrier_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    (void)gpu;
    (void)recording; /* the queue runs one after the other */
    return SDK_GPU_OK;
}

static int submit_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording)
{
    opencl_t *const self = (opencl_t *)gpu;
    if (recording->timed) {
        forget_events(self, recording);
    }
    for (uint32_t k = 0; k < recording->count; ++k) {
        opencl_dispatch_t *const one = &recording->dispatches[k];
        int32_t status;
        if (one->empty) {
            continue;
        }
        status = self->cl.EnqueueNDRangeKernel(self->queue, one->kernel, 3u, NULL, one->items, one->local, 0u, NULL,
                                               recording->timed ? &one->event : NULL);
        if (status != CL_OK) {
            return failed(self, "clEnqueueNDRangeKernel", status);
        }
    }
    {
        const int32_t status = self->cl.Flush(self->queue);
        return status == CL_OK ? SDK_GPU_OK : failed(self, "clFlush", status);
    }
}

static int wait_opencl(sdk_gpu_t *gpu)
{
    opencl_t *const self = (opencl_t *)gpu;
    const int32_t status = self->cl.Finish(self->queue);
    return status == CL_OK ? SDK_GPU_OK : failed(self, "clFinish", status);
}

static int times_opencl(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count)
{
    opencl_t *const self = (opencl_t *)gpu;
    if (!recording->timed || count > recording->count) {
        snprintf(gpu->message, sizeof gpu->message, "the recording was not made to be timed, or has fewer dispatches");
        return SDK_GPU_E_ARG;
    }
    for (uint32_t k = 0; k < count; ++k) {
        uint64_t begin = 0u, end = 0u;
        const cl_object_t event = recording->dispatches[k].event;
        ns[k] = 0u;
        if (event == NULL) {
            continue;
        }
        {
            int32_t status = self->cl.GetEventProfilingInfo(event, CL_STARTED, sizeof begin, &begin, NULL);
            status = status == CL_OK ? self->cl.GetEventProfilingInfo(event, CL_ENDED, sizeof end, &end, NULL) : status;
            if (status == CL_NO_PROFILING) {
                snprintf(gpu->message, sizeof gpu->message, "%s has no time stamps", gpu->device.name);
                return SDK_GPU_E_LIMIT;
            }
            if (status != CL_OK) {
                return failed(self, "clGetEventProfilingInfo", status);
            }
        }
        ns[k] = end > begin ? end - begin : 0u;
    }
    return SDK_GPU_OK;
}

static const sdk_gpu_driver_t OPENCL = {
    .name = "opencl",
    .close = close_opencl,
    .buffer = buffer_opencl,
    .free_buffer = free_buffer_opencl,
    .write = write_opencl,
    .read = read_opencl,
    .kernels = kernels_opencl,
    .free_kernel = free_kernel_opencl,
    .recording = recording_opencl,
    .free_recording = free_recording_opencl,
    .record_begin = record_begin_opencl,
    .record_dispatch = record_dispatch_opencl,
    .record_barrier = record_barrier_opencl,
    .record_end = record_end_opencl,
    .submit = submit_opencl,
    .wait = wait_opencl,
    .times = times_opencl,
};

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
    self->gpu.driver = &OPENCL;
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
        close_opencl(&self->gpu);
        return status;
    }
    *out = &self->gpu;
    return SDK_GPU_OK;
}
