/* What the files of gpu_model.c know of each other. */
#ifndef SDK_RT_GPU_INSIDE_H
#define SDK_RT_GPU_INSIDE_H

#include "sdk_rt_gpu_model.h"

#define SLOTS 8u /* recordings of an entry, by the values of its dims, that are kept */

typedef struct {
    int valid;
    uint64_t used; /* when */
    int32_t *dims;
    sdk_gpu_recording_t **segments;
} slot_t;

/* Steps first..first + count of the plan run on the device in a row, or one of them as C. */
typedef struct {
    uint32_t first, count, dispatches;
    int on_device;
} segment_t;

typedef struct {
    sdk_gpu_place_t *places;
    int32_t *numbers;
    uint32_t (*groups)[3];
    segment_t *segments;
    slot_t slots[SLOTS];
    uint64_t *ns;    /* of each step in the last run, where steps are timed */
    uint64_t *stamps; /* of each dispatch of a recording */
    uint32_t segment_count, slot_count;
} runner_t;

/* Bytes that a dispatch since the last barrier has touched. */
typedef struct {
    sdk_gpu_buffer_t buffer;
    uint64_t begin, end;
    int writes;
} touch_t;

struct sdk_gpu_model {
    sdk_gpu_t *gpu;
    const sdk_gpu_plans_t *plans;
    void *self;
    uint8_t *memory[2]; /* of the host: arena, state */
    uint64_t bytes[2];
    uint8_t shared[2];  /* which of them are the device's too */
    uint8_t with_host;  /* the host has those now, and not the device */
    const uint8_t *weights; /* the file of weights */
    sdk_gpu_buffer_t *regions;
    sdk_gpu_kernel_t *kernels;
    uint8_t *verdicts;
    uint8_t *ended; /* starts in a row that ended while the driver had a kernel */
    uint32_t trying; /* the kernel that it has, or had last */
    runner_t *runners;
    touch_t *touched;
    uint32_t touch_room;
    uint8_t *made;   /* of the host, as large as arena and state: what the device made of what a step that is proved writes, */
    uint8_t *before; /* as large: and that as it was before the step */
    uint8_t *kept;    /* the file of what was kept, NULL where there is none of use */
    uint64_t key[2];  /* of device, driver and program */
    uint64_t clock, copied;
    uint32_t recorded;
    int state_changed;
    int timed;   /* steps are timed: by the device, or */
    int stepped; /* by the host, one after the other */
};

/* The tables of the entry for given dims. */
void sdk_gpu_model_place(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const void *dims);

/* The numbers of a run that kernels read from memory to the device. */
int sdk_gpu_model_live(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner);

/* Bytes of the host to the device, or of the device to the host; nothing where they share them. */
int sdk_gpu_model_up(sdk_gpu_model_t *model, uint16_t region, const sdk_gpu_place_t *where);
int sdk_gpu_model_down(sdk_gpu_model_t *model, uint16_t region, const sdk_gpu_place_t *where);

/* Gives what they share to the host, which waits for the device, or to the device. */
int sdk_gpu_model_turn(sdk_gpu_model_t *model, int to_host);

/* Records the steps of a segment. */
int sdk_gpu_model_record(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const segment_t *segment,
                         sdk_gpu_recording_t *recording);

/* Which dispatch does the work of dispatch d: the first of its forms whose kernel runs on the device, else the last. */
uint32_t sdk_gpu_model_form(const sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, uint32_t d);

/* Makes the kernels of a step's dispatches, of each the first form that the driver takes. */
int sdk_gpu_model_make(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const sdk_gpu_step_t *step);

/* Whether all kernels of a step run on the device. */
int sdk_gpu_model_usable(const sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const sdk_gpu_step_t *step);

/* Runs every entry once, step by step, and finds the verdicts. */
int sdk_gpu_model_prove(sdk_gpu_model_t *model);

/* Reads what was kept: its verdicts, and over which kernels earlier starts have ended or lost the device. */
void sdk_gpu_model_load(sdk_gpu_model_t *model);

/* What was kept of a kernel; NULL where there is nothing. */
const uint8_t *sdk_gpu_model_kept(const sdk_gpu_model_t *model, uint32_t kernel, size_t *bytes);

/* Throws away what was kept, and all verdicts. */
void sdk_gpu_model_forget(sdk_gpu_model_t *model);

/* Keeps kernels and verdicts. What fails here is no error: the next start then compiles anew. */
void sdk_gpu_model_save(sdk_gpu_model_t *model);

/* Notes in the folder that the driver is about to compile or run a kernel: what ends over one leaves a note. tried()
   removes it, or leaves one that tells that the kernel loses the device. */
void sdk_gpu_model_trying(sdk_gpu_model_t *model, uint32_t kernel);
void sdk_gpu_model_tried(sdk_gpu_model_t *model, int lost);

#endif /* SDK_RT_GPU_INSIDE_H */
