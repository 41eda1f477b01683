/* The OpenCL driver's own declarations: what it uses of OpenCL, as the standard has it, and its records. */
#ifndef SDK_RT_GPU_OPENCL_H
#define SDK_RT_GPU_OPENCL_H

#include "sdk_rt_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#define CL_CALL __stdcall
#else
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
    CL_TYPE = 0x1000,
    CL_ITEM_SIZES = 0x1005,
    CL_GROUP_SIZE = 0x1004,
    CL_MAX_BUFFER = 0x1010,
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
#define CL_USE_HOST_PTR_ 8u
#define CL_MAP_BOTH 3u
#define CL_KERNEL_GROUP_SIZE 0x11B0u
#define CL_BUILD_LOG 0x1183u
#define CL_BINARY_SIZES 0x1165u
#define CL_BINARIES 0x1166u
#define CL_STARTED 0x1282u
#define CL_ENDED 0x1283u
#define CL_CONTEXT_PLATFORM_ 0x1084

#define CL_FUNCTIONS(F) \
    F(int32_t, GetPlatformIDs, (uint32_t, cl_object_t *, uint32_t *)) \
    F(int32_t, GetDeviceIDs, (cl_object_t, uint64_t, uint32_t, cl_object_t *, uint32_t *)) \
    F(int32_t, GetDeviceInfo, (cl_object_t, uint32_t, size_t, void *, size_t *)) \
    F(cl_object_t, CreateContext, (const cl_properties_t *, uint32_t, const cl_object_t *, void (*)(void), void *, int32_t *)) \
    F(cl_object_t, CreateCommandQueue, (cl_object_t, cl_object_t, uint64_t, int32_t *)) \
    F(cl_object_t, CreateBuffer, (cl_object_t, uint64_t, size_t, void *, int32_t *)) \
    F(cl_object_t, CreateProgramWithSource, (cl_object_t, uint32_t, const char **, const size_t *, int32_t *)) \
    F(cl_object_t, CreateProgramWithBinary, (cl_object_t, uint32_t, const cl_object_t *, const size_t *, const uint8_t **, \
                                             int32_t *, int32_t *)) \
    F(int32_t, GetProgramInfo, (cl_object_t, uint32_t, size_t, void *, size_t *)) \
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
    F(void *, EnqueueMapBuffer, (cl_object_t, cl_object_t, uint32_t, uint64_t, size_t, size_t, uint32_t, \
                                 const cl_object_t *, cl_object_t *, int32_t *)) \
    F(int32_t, EnqueueUnmapMemObject, (cl_object_t, cl_object_t, void *, uint32_t, const cl_object_t *, cl_object_t *)) \
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
    uint32_t max, count;
    int timed;
    opencl_dispatch_t dispatches[];
};

/* ---- statuses ---- */

static inline int status_of(int32_t code)
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

static inline int failed(opencl_t *self, const char *call, int32_t code)
{
    snprintf(self->gpu.message, sizeof self->gpu.message, "%s: %s failed with OpenCL error %ld", self->gpu.device.name, call,
             (long)code);
    return status_of(code);
}

static inline int out_of_memory(opencl_t *self)
{
    snprintf(self->gpu.message, sizeof self->gpu.message, "no memory of the host is left");
    return SDK_GPU_E_MEMORY;
}

static inline cl_object_t object(uint64_t handle)
{
    return (cl_object_t)(uintptr_t)handle;
}

/* The functions of the driver, of which closing is beside opening. */
extern const sdk_gpu_driver_t sdk_gpu_opencl;
void sdk_gpu_opencl_close(sdk_gpu_t *gpu);

#endif /* SDK_RT_GPU_OPENCL_H */
