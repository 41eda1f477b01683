/* A model on a GPU: what generated code tells of its plans, and the functions that run them. Models call these; programs
   call <model>_init_gpu, <model>_run and <model>_close_gpu. */
#ifndef SDK_RT_GPU_MODEL_H
#define SDK_RT_GPU_MODEL_H

#include "sdk_rt_gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Regions by number: the arena and the state, which the host has too; scratch memory of kernels; then the buffers of
   constants; last, where an entry has such, the numbers that kernels read from memory. */
enum { SDK_GPU_ARENA = 0, SDK_GPU_STATE = 1, SDK_GPU_SCRATCH = 2, SDK_GPU_CONSTANTS = 3 };

/* What comparing elements goes by. */
enum { SDK_GPU_EXACT = 0, SDK_GPU_F16 = 1, SDK_GPU_F32 = 2, SDK_GPU_F64 = 3 };

/* Where an operand lies in its region: numbers that may follow from the dims of a run. */
typedef struct {
    uint64_t offset;
    uint64_t bytes;
} sdk_gpu_place_t;

/* What holds of an operand for all dims. */
typedef struct {
    uint16_t region;
    uint8_t element; /* SDK_GPU_EXACT, .. */
    uint8_t reads;   /* whether the step reads it */
    uint8_t writes;  /* whether the step writes to it */
    uint8_t down;    /* where the step runs as C: whether that needs what the device has of it, and */
    uint8_t up;      /* whether the device needs what it wrote */
} sdk_gpu_operand_t;

/* One kernel of a step. It is given the step's operands that uses[first_use] and those after it number. Where its kernel
   does not run on the device, the dispatch `instead` rows on takes its place, a plainer form of it; 0: there is none. */
typedef struct {
    uint32_t first_use;
    uint16_t kernel, instead;
} sdk_gpu_dispatch_t;

/* One call of the plan. Its kernels are run in order, each with all numbers; none: it runs as C. */
typedef struct {
    uint32_t first_operand, first_number, first_dispatch;
    uint16_t operands, numbers, dispatches;
    const char *name; /* what it computes */
    const char *why;  /* why it has no kernel; NULL where it has */
} sdk_gpu_step_t;

/* An input or output, at places[place], of elements of a kind: 'f', 'i', 'u' or 'b' and bytes. */
typedef struct {
    uint32_t place;
    uint16_t region;
    char kind;
    uint8_t bytes;
} sdk_gpu_port_t;

/* One entry. places, numbers and groups are their starts, which place() completes for given dims: places those of the
   operands, then those of inputs and outputs; numbers those that are recorded, then live_count that kernels read from
   memory. step() runs step k as C, in the memory of the host. */
typedef struct {
    const char *name;
    const sdk_gpu_step_t *steps;
    const sdk_gpu_operand_t *operands;
    const sdk_gpu_dispatch_t *dispatches;
    const uint16_t *uses;
    const sdk_gpu_place_t *places;
    const int32_t *numbers;
    const uint32_t (*groups)[3];
    const sdk_gpu_port_t *inputs, *outputs;
    const int32_t *dims; /* those that the proof is run with */
    const uint8_t *recorded; /* of each dim whether a recording depends on it */
    uint32_t step_count, operand_count, place_count, number_count, dispatch_count;
    uint16_t input_count, output_count, dim_count, live_count;
    void (*place)(const void *self, const void *dims, sdk_gpu_place_t *places, int32_t *numbers, uint32_t (*groups)[3]);
    void (*step)(void *self, const void *dims, int32_t step);
} sdk_gpu_entry_t;

/* Constants that go to a region. data is NULL for those of the file of weights, in which they begin at `from`. */
typedef struct {
    const void *data;
    uint64_t from, bytes, offset;
    uint16_t region;
} sdk_gpu_upload_t;

typedef struct {
    const char *name;
    const char *hash;
    const sdk_gpu_code_t *codes;
    const sdk_gpu_upload_t *uploads;
    const uint64_t *region_bytes;
    const sdk_gpu_entry_t *const *entries;
    uint32_t code_count, upload_count, region_count, entry_count;
    int (*reset)(void *self); /* puts the state of the host to its start */
} sdk_gpu_plans_t;

/* Why a kernel does not run on the device. */
enum { SDK_GPU_RUNS = 0, SDK_GPU_NOT_BUILT = 1, SDK_GPU_OVER_LIMITS = 2, SDK_GPU_DIFFERS = 3, SDK_GPU_CRASHED = 4 };

typedef struct sdk_gpu_model sdk_gpu_model_t;

/* Puts a model on a device: compiles its kernels, proves them with one run of each entry, copies constants and state. All
   that later runs need is made here. arena and state are the host's: the
   former is left as it was, the latter is put to its start; both must stay until the model is closed, for a device without
   memory of its own works in them. weights is the file of weights, NULL where there is none; it
   is read here, and by steps that run as C. `told`, which may be NULL, is called with a line of
   text for each kernel that does not run on the device, and for each step that has none. */
int sdk_gpu_model_open(sdk_gpu_t *gpu, const sdk_gpu_plans_t *plans, void *self, uint8_t *arena, uint64_t arena_bytes,
                       uint8_t *state, uint64_t state_bytes, const void *weights, void (*told)(const char *line),
                       sdk_gpu_model_t **out);

/* Frees it. NULL is allowed. */
void sdk_gpu_model_close(sdk_gpu_model_t *model);

/* Runs an entry: inputs are taken from the host's arena, outputs are there when it returns. Nothing else may touch arena and
   state meanwhile. */
int sdk_gpu_model_run(sdk_gpu_model_t *model, uint32_t entry, const void *dims);

/* The state of the host has changed: the next run begins with it. */
void sdk_gpu_model_state_changed(sdk_gpu_model_t *model);

/* Copies the state from the device to the host. SDK_GPU_OK where the host has it. */
int sdk_gpu_model_fetch_state(sdk_gpu_model_t *model);

/* What the device took for a step in the last run of the entry, in ns; 0 for one that ran as C, and where gpu->now was
   NULL when the model was put on the device. */
uint64_t sdk_gpu_model_ns(const sdk_gpu_model_t *model, uint32_t entry, uint32_t step);

/* The bytes of arena and state that were copied between host and device so far; none where the device works in the memory
   of the host. */
uint64_t sdk_gpu_model_copied(const sdk_gpu_model_t *model);

/* How many recordings were made so far, and what each kernel's verdict is (SDK_GPU_RUNS, ..). */
uint32_t sdk_gpu_model_recorded(const sdk_gpu_model_t *model);
uint8_t sdk_gpu_model_verdict(const sdk_gpu_model_t *model, uint32_t kernel);

#ifdef __cplusplus
}
#endif

#endif /* SDK_RT_GPU_MODEL_H */
