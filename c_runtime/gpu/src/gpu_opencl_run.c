/* Buffers, kernels and recordings of the OpenCL driver. */
#include "sdk_rt_gpu_opencl.h"

/* ---- buffers ---- */

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

static int turn_opencl(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host)
{
    opencl_t *const self = (opencl_t *)gpu;
    int32_t code = CL_OK;
    if (to_host) {
        self->cl.EnqueueMapBuffer(self->queue, object(buffer), 1u, CL_MAP_BOTH, 0u, (size_t)bytes, 0u, NULL, NULL, &code);
    } else {
        code = self->cl.EnqueueUnmapMemObject(self->queue, object(buffer), memory, 0u, NULL, NULL);
    }
    return code == CL_OK ? SDK_GPU_OK : failed(self, "clEnqueueMapBuffer", code);
}

/* Whether the device writes to the memory itself: a driver may keep a copy of it, which it moves when it is mapped. */
static int in_place(opencl_t *self, cl_object_t made, volatile uint8_t *memory)
{
    const uint8_t old = memory[0], other = (uint8_t)~old;
    int32_t code = self->cl.EnqueueWriteBuffer(self->queue, made, 1u, 0u, 1u, &other, 0u, NULL, NULL);
    const int seen = code == CL_OK && memory[0] == other;
    code = self->cl.EnqueueWriteBuffer(self->queue, made, 1u, 0u, 1u, &old, 0u, NULL, NULL);
    return code == CL_OK && seen && memory[0] == old;
}

static int share_opencl(sdk_gpu_t *gpu, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out)
{
    opencl_t *const self = (opencl_t *)gpu;
    int32_t code = CL_OK;
    const cl_object_t made =
        self->cl.CreateBuffer(self->context, CL_READ_WRITE | CL_USE_HOST_PTR_, (size_t)bytes, memory, &code);
    if (made == NULL || code != CL_OK) {
        return SDK_GPU_E_LIMIT;
    }
    if (!in_place(self, made, memory) || turn_opencl(gpu, (uint64_t)(uintptr_t)made, memory, bytes, 1) != SDK_GPU_OK) {
        self->cl.ReleaseMemObject(made);
        return SDK_GPU_E_LIMIT;
    }
    *out = (uint64_t)(uintptr_t)made;
    return SDK_GPU_OK;
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

static int kernel_opencl(sdk_gpu_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out)
{
    opencl_t *const self = (opencl_t *)gpu;
    int32_t status = CL_OK;
    size_t max = 0u;
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
    if (kept != NULL) {
        const uint8_t *binary = kept;
        made->program = self->cl.CreateProgramWithBinary(self->context, 1u, &self->device, &bytes, &binary, NULL, &status);
    } else {
        made->program = self->cl.CreateProgramWithSource(self->context, 1u, &text, NULL, &status);
    }
    if (made->program == NULL || status != CL_OK) {
        free(made);
        (void)failed(self, kept != NULL ? "clCreateProgramWithBinary" : "clCreateProgramWithSource", status);
        return status_of(status) == SDK_GPU_E_DRIVER ? SDK_GPU_E_BUILD : status_of(status);
    }
    status = self->cl.BuildProgram(made->program, 1u, &self->device, "", NULL, NULL);
    if (status == CL_OK) {
        kernel = self->cl.CreateKernel(made->program, code->name, &status);
        if (kernel != NULL && status == CL_OK) {
            status = self->cl.GetKernelWorkGroupInfo(kernel, self->device, CL_KERNEL_GROUP_SIZE, sizeof max, &max, NULL);
            self->cl.ReleaseKernel(kernel);
            if (status == CL_OK && max < items) {
                self->cl.ReleaseProgram(made->program);
                free(made);
                snprintf(self->gpu.message, sizeof self->gpu.message, "%s: a group of %s has at most %lu items",
                         self->gpu.device.name, code->name, (unsigned long)max);
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

static int binary_opencl(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel, void *out, size_t *bytes)
{
    opencl_t *const self = (opencl_t *)gpu;
    const cl_object_t program = ((opencl_kernel_t *)(uintptr_t)kernel)->program;
    size_t size = 0u;
    int32_t code = self->cl.GetProgramInfo(program, CL_BINARY_SIZES, sizeof size, &size, NULL);
    if (code == CL_OK && out != NULL) {
        code = size > *bytes ? CL_NO_BUFFER : self->cl.GetProgramInfo(program, CL_BINARIES, sizeof out, &out, NULL);
    }
    *bytes = size;
    return code == CL_OK ? SDK_GPU_OK : failed(self, "clGetProgramInfo", code);
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
    made->max = dispatches;
    made->timed = timed;
    *out = made;
    return SDK_GPU_OK;
}

static void forget_events(opencl_t *self, sdk_gpu_recording_t *recording)
{
    for (uint32_t k = 0; k < recording->max; ++k) {
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
    for (uint32_t k = 0; k < recording->max; ++k) {
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
    if (recording->count >= recording->max) {
        snprintf(gpu->message, sizeof gpu->message, "a recording has room for %lu dispatches", (unsigned long)recording->max);
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

const sdk_gpu_driver_t sdk_gpu_opencl = {
    .name = "opencl",
    .close = sdk_gpu_opencl_close,
    .buffer = buffer_opencl,
    .share = share_opencl,
    .turn = turn_opencl,
    .free_buffer = free_buffer_opencl,
    .write = write_opencl,
    .read = read_opencl,
    .kernel = kernel_opencl,
    .binary = binary_opencl,
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
