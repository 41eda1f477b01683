/* A GPU as generated models use it: buffers, kernels, and recordings of dispatches that are made once and submitted many
   times. gpu_opencl.c and gpu_vulkan.c are two drivers of it; a model that is built without --gpu links none of this.

   Order. open -> buffers and kernels -> recordings -> (write, submit, wait, read) as often as wanted -> close. Opening,
   and making buffers, kernels and recordings, may allocate; record_*, write, submit, wait and read allocate nothing of
   their own. One thread at a time uses a GPU.

   Every function returns SDK_GPU_OK or one of the statuses below, and then gpu->message says in words what failed: which
   call, on which device, with which number of the driver's. After SDK_GPU_E_LOST only close is of use. */
#ifndef SDK_RT_GPU_H
#define SDK_RT_GPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Statuses. They continue those of generated models (SDK_RT_E_*), whose functions return them as they are. */
enum {
    SDK_GPU_OK = 0,
    SDK_GPU_E_ARG = -1,     /* a null argument, or a range outside of a buffer */
    SDK_GPU_E_LIBRARY = -6, /* the library of the driver (OpenCL, Vulkan) is not there, or lacks a function */
    SDK_GPU_E_DEVICE = -7,  /* no such device, or none that can run kernels */
    SDK_GPU_E_BUILD = -8,   /* the driver does not compile a kernel */
    SDK_GPU_E_MEMORY = -9,  /* memory of the device or of the host is out */
    SDK_GPU_E_LOST = -10,   /* the device is gone: it was reset, or a kernel took too long */
    SDK_GPU_E_LIMIT = -11,  /* more than the device allows of something: see sdk_gpu_limits_t */
    SDK_GPU_E_DRIVER = -12  /* any other error of the driver */
};

#define SDK_GPU_WORDS 32u     /* 32-bit words of numbers that a kernel is given at most: the least that Vulkan promises */
#define SDK_GPU_OPERANDS 32u  /* buffers that a kernel is given at most: each takes a word */
#define SDK_GPU_LOCAL 32768u  /* bytes of memory that a group shares at most */

/* What a device allows; 0 where the driver does not tell. */
typedef struct {
    uint64_t buffer_bytes;  /* of what a kernel sees of one buffer */
    uint64_t memory_bytes;  /* of the device in all */
    uint32_t operands;      /* bindings of one kernel */
    uint32_t local_bytes;   /* memory that a group shares */
    uint32_t group_items;   /* work items of a group */
    uint32_t group[3];      /* the same by axis */
    uint32_t groups[3];     /* groups of a dispatch by axis */
    uint32_t subgroup;      /* work items that run in step, usually; 0 where it varies or is not told */
    uint32_t tick_ps;       /* resolution of time stamps in ps; 0: there are none */
    uint8_t f16;            /* arithmetic in f16 */
    uint8_t f64;            /* arithmetic in f64 */
    uint8_t bytes;          /* loads and stores of 8 and 16 bits */
    uint8_t i64;            /* arithmetic in 64-bit integers */
    uint8_t dot;            /* products of four 8-bit integers at a time */
    uint8_t shared_memory;  /* device and host have one memory, so that copies are plain ones */
    uint64_t allocation_bytes; /* of one buffer */
} sdk_gpu_limits_t;

/* What a device is called; each text ends with a 0. Verdicts and caches on disk are kept by all of these together. */
typedef struct {
    char name[128];
    char vendor[64];
    char driver[128]; /* its name and version, with that of the interface: "OpenCL 3.0 PoCL 3.1" */
    uint8_t uuid[16]; /* of device and driver, where there is one; else 0 */
    uint8_t software; /* the processor stands in for a GPU (lavapipe, PoCL) */
} sdk_gpu_device_t;

/* A buffer or kernel of a device. 0 is none. */
typedef uint64_t sdk_gpu_buffer_t;
typedef uint64_t sdk_gpu_kernel_t;
typedef struct sdk_gpu_recording sdk_gpu_recording_t; /* the driver's own */

/* One kernel as generated code has it. text is OpenCL C, with one kernel function called name; words is SPIR-V with the
   entry point "main". Either may be NULL where the model is built for the other driver.

   What a kernel sees. Operand k is a storage buffer: in Vulkan binding k of set 0, or bindings[k] where operands share
   them, which are then in one buffer in every dispatch and see all of it. Its numbers, `words` 32-bit words
   (push constants in Vulkan, int arguments in OpenCL), begin with one word for each operand: how many bytes behind the
   start of what is bound the operand begins; then the numbers of the dispatch follow. So drivers may bind a whole buffer,
   or a range that begins where the device's rule of alignment allows it.
   OpenCL C: kernel void name(global uchar *b0, int at0, global uchar *b1, int at1, ..., int n0, int n1, ...) */
typedef struct {
    const char *name;
    const char *text;
    const uint32_t *spirv;
    uint32_t spirv_words;
    uint16_t operands;     /* at most SDK_GPU_OPERANDS */
    uint16_t words;        /* operands + numbers, at most SDK_GPU_WORDS */
    uint32_t written;      /* bit k: operand k is written, or both */
    uint16_t local[3];     /* work items of a group by axis; none is 0 */
    uint32_t local_bytes;  /* memory that a group shares */
    uint32_t needs;        /* SDK_GPU_NEEDS_* */
    uint16_t bound;        /* how many bindings there are */
    const uint8_t *bindings; /* of each operand; NULL: one each */
} sdk_gpu_code_t;

enum { SDK_GPU_NEEDS_F16 = 1, SDK_GPU_NEEDS_F64 = 2, SDK_GPU_NEEDS_I64 = 4, SDK_GPU_NEEDS_DOT = 8, SDK_GPU_NEEDS_BYTES = 16 };

/* What a dispatch gives an operand: `bytes` from `offset` on. */
typedef struct {
    sdk_gpu_buffer_t buffer;
    uint64_t offset;
    uint64_t bytes;
} sdk_gpu_range_t;

typedef struct sdk_gpu sdk_gpu_t;

/* The functions of a driver. Each has a wrapper below, which is what is called. */
typedef struct {
    const char *name; /* "opencl", "vulkan" */
    void (*close)(sdk_gpu_t *gpu);
    int (*buffer)(sdk_gpu_t *gpu, uint64_t bytes, sdk_gpu_buffer_t *out);
    int (*share)(sdk_gpu_t *gpu, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out);
    int (*turn)(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host);
    void (*free_buffer)(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer);
    int (*write)(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, const void *data, uint64_t bytes);
    int (*read)(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, void *data, uint64_t bytes);
    int (*kernel)(sdk_gpu_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out);
    int (*binary)(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel, void *out, size_t *bytes);
    void (*free_kernel)(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel);
    int (*recording)(sdk_gpu_t *gpu, uint32_t dispatches, int timed, sdk_gpu_recording_t **out);
    void (*free_recording)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
    int (*record_begin)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
    int (*record_dispatch)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                           sdk_gpu_kernel_t kernel, const sdk_gpu_range_t *operands, const int32_t *numbers,
                           const uint32_t groups[3]);
    int (*record_barrier)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
    int (*record_end)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
    int (*submit)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
    int (*wait)(sdk_gpu_t *gpu);
    int (*times)(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count);
} sdk_gpu_driver_t;

/* The start of every driver's own record. */
struct sdk_gpu {
    const sdk_gpu_driver_t *driver;
    sdk_gpu_limits_t limits;
    sdk_gpu_device_t device;
    char message[512]; /* of the last status that was not SDK_GPU_OK */
    const char *folder; /* where models keep what drivers have compiled, and verdicts; NULL: nowhere */
    uint64_t (*now)(void); /* ns of a clock; not NULL: models that are put on the device have each of their steps timed */
};

/* Which devices there are: up to `max` into out and limits (either may be NULL), how many in all into count. SDK_GPU_OK
   with count 0 where there is a library and no device; what failed else is put into message (NULL: nowhere). */
int sdk_gpu_list_opencl(sdk_gpu_device_t *out, sdk_gpu_limits_t *limits, uint32_t max, uint32_t *count, char message[512]);
int sdk_gpu_list_vulkan(sdk_gpu_device_t *out, sdk_gpu_limits_t *limits, uint32_t max, uint32_t *count, char message[512]);

/* Opens device number `index` as the list above counts them; -1: the first, one that is no processor before one that is. */
int sdk_gpu_open_opencl(int32_t index, sdk_gpu_t **out, char message[512]);
int sdk_gpu_open_vulkan(int32_t index, sdk_gpu_t **out, char message[512]);

/* Ends all work and frees whatever was made on the device. NULL is allowed. */
void sdk_gpu_close(sdk_gpu_t *gpu);

/* A buffer of so many bytes, of no defined contents. SDK_GPU_E_LIMIT above limits.allocation_bytes. */
int sdk_gpu_buffer(sdk_gpu_t *gpu, uint64_t bytes, sdk_gpu_buffer_t *out);
void sdk_gpu_free_buffer(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer);

/* A buffer that is memory of the host, which must begin at a multiple of SDK_GPU_SHARED_ALIGN bytes and stay until the buffer is
   freed: nothing is copied then. SDK_GPU_E_LIMIT where the device has memory of its own, or its driver would keep a copy.
   Either the device or the host has such a buffer, at first the host: sdk_gpu_turn gives it to the device before work is
   submitted, or back once that is done, for which it waits. */
#define SDK_GPU_SHARED_ALIGN 64u
int sdk_gpu_share(sdk_gpu_t *gpu, void *memory, uint64_t bytes, sdk_gpu_buffer_t *out);
int sdk_gpu_turn(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, void *memory, uint64_t bytes, int to_host);

/* Copies to and from a buffer, in order with what was submitted: both return when the host may go on with `data`. Any
   offset and length. */
int sdk_gpu_write(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, const void *data, uint64_t bytes);
int sdk_gpu_read(sdk_gpu_t *gpu, sdk_gpu_buffer_t buffer, uint64_t offset, void *data, uint64_t bytes);

/* Where models that are put on the device from now on keep their kernels as the driver has compiled them, and which of
   them were proved: a folder that is there and that nobody else writes to, for what is kept is code. The text must stay.
   NULL, as at first: nothing is read or written. Files of other devices, drivers or programs are not read, damaged ones
   are thrown away. */
void sdk_gpu_keep_in(sdk_gpu_t *gpu, const char *folder);

/* Compiles kernels. out[k] is 0 for one that the driver does not compile or that asks for more than the device has; the
   status is then the first such one's (SDK_GPU_E_BUILD, SDK_GPU_E_LIMIT), and the others are of use. */
int sdk_gpu_kernels(sdk_gpu_t *gpu, const sdk_gpu_code_t *codes, uint32_t count, sdk_gpu_kernel_t *out);
void sdk_gpu_free_kernel(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel);

/* One kernel, from what sdk_gpu_binary told of it where `kept` is not NULL: SDK_GPU_E_BUILD where the driver does not take
   that. */
int sdk_gpu_kernel(sdk_gpu_t *gpu, const sdk_gpu_code_t *code, const void *kept, size_t bytes, sdk_gpu_kernel_t *out);

/* A kernel as this driver has compiled it, of use to this driver and device alone: up to *bytes of it, and *bytes are how
   many these are; with out NULL how many there are at most. Needs sdk_gpu_keep_in before the kernel was made. */
int sdk_gpu_binary(sdk_gpu_t *gpu, sdk_gpu_kernel_t kernel, void *out, size_t *bytes);

/* Room for a recording of so many dispatches; with `timed` each is timed. It may be recorded anew. */
int sdk_gpu_recording(sdk_gpu_t *gpu, uint32_t dispatches, int timed, sdk_gpu_recording_t **out);
void sdk_gpu_free_recording(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);

/* Recording: begin, then dispatches with barriers between those of which the second needs what the first wrote (or
   overwrites what it reads or writes), end. `operands` are code->operands ranges, `numbers` are code->words -
   code->operands words; groups are counts of groups of code->local. A dispatch of no groups records nothing. */
int sdk_gpu_record_begin(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_gpu_record_dispatch(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, const sdk_gpu_code_t *code,
                            sdk_gpu_kernel_t kernel, const sdk_gpu_range_t *operands, const int32_t *numbers,
                            const uint32_t groups[3]);
int sdk_gpu_record_barrier(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_gpu_record_end(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);

/* Runs a recording; one after the other, each sees all that those before it wrote. wait returns when all are done. */
int sdk_gpu_submit(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording);
int sdk_gpu_wait(sdk_gpu_t *gpu);

/* The ns that each dispatch of a timed recording took in its last run, in order; those of no groups took 0.
   SDK_GPU_E_LIMIT where the device has no time stamps. */
int sdk_gpu_times(sdk_gpu_t *gpu, sdk_gpu_recording_t *recording, uint64_t *ns, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* SDK_RT_GPU_H */
