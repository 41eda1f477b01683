/* The proof of kernels: each step on the device and as C, and what they wrote compared. */
#include "sdk_rt_gpu_inside.h"

#include <math.h>
#include <string.h>

static double half_at(uint16_t half)
{
    const int exponent = half >> 10 & 31;
    double size = (double)(half & 1023);
    if (exponent == 31) {
        size = (half & 1023) != 0 ? (double)NAN : (double)INFINITY;
    } else {
        size = exponent == 0 ? size / 16777216.0 : (size + 1024.0) / 33554432.0 * (double)(1u << exponent);
    }
    return (half & 0x8000) != 0 ? -size : size;
}

static double value_at(const void *data, uint64_t index, uint8_t element)
{
    if (element == SDK_GPU_F32) {
        return (double)((const float *)data)[index];
    }
    if (element == SDK_GPU_F64) {
        return ((const double *)data)[index];
    }
    return half_at(((const uint16_t *)data)[index]);
}

/* Integers to the bit; floats within 1e-4 (f16: 2e-3) of the largest there is, or of 1 where that is less. */
static int agrees(const void *got, const void *want, uint64_t bytes, uint8_t element)
{
    static const uint8_t SIZES[] = {1u, 2u, 4u, 8u};
    const uint64_t count = bytes / SIZES[element];
    const double part = element == SDK_GPU_F16 ? 2e-3 : 1e-4;
    double top = 1.0;
    if (element == SDK_GPU_EXACT) {
        return memcmp(got, want, (size_t)bytes) == 0;
    }
    for (uint64_t k = 0; k < count; ++k) {
        const double value = value_at(want, k, element), size = value < 0.0 ? -value : value;
        top = size > top && isfinite(size) ? size : top;
    }
    for (uint64_t k = 0; k < count; ++k) {
        const double a = value_at(got, k, element), b = value_at(want, k, element);
        if (isfinite(b) ? !(a - b <= part * top && b - a <= part * top) : !(isnan(b) ? isnan(a) : a == b)) {
            return 0;
        }
    }
    return 1;
}

/* Numbers for inputs, always the same: floats in -1..1, bytes of any value, wider integers 0 or 1, for they may be places. */
static void draw(uint8_t *out, uint64_t bytes, const sdk_gpu_port_t *port, uint32_t *seed)
{
    const uint64_t count = bytes / port->bytes;
    for (uint64_t k = 0; k < count; ++k) {
        *seed = *seed * 1664525u + 1013904223u;
        if (port->kind == 'f' && port->bytes == 4u) {
            ((float *)(void *)out)[k] = (float)(int32_t)*seed / 2147483648.0f;
        } else if (port->kind == 'f' && port->bytes == 8u) {
            ((double *)(void *)out)[k] = (double)(int32_t)*seed / 2147483648.0;
        } else if (port->kind == 'f') {
            ((uint16_t *)(void *)out)[k] = (uint16_t)(0x3000u + (*seed >> 20 & 0x8BFFu)); /* 2**-3 to 1/2, and their negatives */
        } else if (port->bytes == 1u && port->kind != 'b') {
            out[k] = (uint8_t)(*seed >> 24);
        } else {
            memset(out + k * port->bytes, 0, port->bytes);
            out[k * port->bytes] = (uint8_t)(*seed >> 31);
        }
    }
}

int sdk_gpu_model_usable(const sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const sdk_gpu_step_t *step)
{
    for (uint32_t d = 0; d < step->dispatches; ++d) {
        if (model->verdicts[entry->dispatches[sdk_gpu_model_form(model, entry, step->first_dispatch + d)].kernel] != SDK_GPU_RUNS) {
            return 0;
        }
    }
    return step->dispatches > 0u;
}

/* What to do with the bytes that a step writes, one operand after the other in a buffer. */
typedef enum { KEEP, PUT_BACK, FETCH, COMPARE } written_t;

/* Does so with the host's memory and `own`; FETCH takes what the device has. *fine is 0 where that is more than there is room for,
   as where operands that are written share bytes, or where they differ. */
static int each_written(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner, const sdk_gpu_step_t *step,
                        written_t what, uint8_t *own, int *fine)
{
    const uint64_t max = model->plans->region_bytes[SDK_GPU_ARENA] + model->plans->region_bytes[SDK_GPU_STATE];
    uint64_t at = 0u;
    int status = SDK_GPU_OK;
    for (uint32_t k = step->first_operand; *fine && status == SDK_GPU_OK && k < step->first_operand + step->operands; ++k) {
        const sdk_gpu_operand_t *const operand = &entry->operands[k];
        const uint64_t bytes = runner->places[k].bytes;
        uint8_t *held;
        if (!operand->writes || operand->region >= SDK_GPU_SCRATCH) {
            continue;
        }
        held = model->memory[operand->region] + runner->places[k].offset;
        if (bytes > max - at) {
            *fine = 0;
        } else if (what == COMPARE) {
            *fine = agrees(own + at, held, bytes, operand->element);
        } else if (what == FETCH && !model->shared[operand->region]) {
            status = sdk_gpu_read(model->gpu, model->regions[operand->region], runner->places[k].offset, own + at, bytes);
        } else {
            memcpy(what == PUT_BACK ? held : own + at, what == PUT_BACK ? own + at : held, (size_t)bytes);
        }
        at += bytes;
    }
    return status;
}

/* Runs a step on the device from what the host has, and keeps what it makes. */
static int attempt(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const segment_t *segment,
                   sdk_gpu_recording_t *recording)
{
    const sdk_gpu_step_t *const step = &entry->steps[segment->first];
    int status = SDK_GPU_OK, fine = 1;
    for (uint32_t k = step->first_operand; status == SDK_GPU_OK && k < step->first_operand + step->operands; ++k) {
        if (entry->operands[k].region < SDK_GPU_SCRATCH) {
            status = sdk_gpu_model_up(model, entry->operands[k].region, &runner->places[k]);
        }
    }
    status = status == SDK_GPU_OK ? sdk_gpu_model_record(model, entry, runner, segment, recording) : status;
    if (status != SDK_GPU_OK) {
        return status;
    }
    sdk_gpu_model_trying(model, entry->dispatches[sdk_gpu_model_form(model, entry, step->first_dispatch)].kernel);
    status = sdk_gpu_model_turn(model, 0);
    status = status == SDK_GPU_OK ? sdk_gpu_submit(model->gpu, recording) : status;
    status = status == SDK_GPU_OK ? sdk_gpu_wait(model->gpu) : status;
    status = status == SDK_GPU_OK ? sdk_gpu_model_turn(model, 1) : status;
    return status == SDK_GPU_OK ? each_written(model, entry, runner, step, FETCH, model->made, &fine) : status;
}

/* Runs a step as C and each of its forms on the device, from the same bytes, until one agrees. The host keeps the results
   of C. */
static int prove_step(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, uint32_t index, const void *dims,
                      sdk_gpu_recording_t *recording)
{
    const sdk_gpu_step_t *const step = &entry->steps[index];
    const segment_t segment = {index, 1u, step->dispatches, 1};
    uint8_t verdict;
    int same = 0, ran = 0, saved = 1, fine = 1;
    int status = SDK_GPU_OK;
    (void)each_written(model, entry, runner, step, KEEP, model->before, &saved);
    while (!same && status == SDK_GPU_OK && sdk_gpu_model_usable(model, entry, step)) {
        if (ran) {
            (void)each_written(model, entry, runner, step, PUT_BACK, model->before, &fine);
        }
        status = saved ? attempt(model, entry, runner, &segment, recording) : SDK_GPU_E_LIMIT;
        verdict = status == SDK_GPU_E_LIMIT ? SDK_GPU_OVER_LIMITS : SDK_GPU_DIFFERS;
        same = status == SDK_GPU_OK;
        if (status == SDK_GPU_E_LIMIT || status == SDK_GPU_E_ARG) {
            status = SDK_GPU_OK;
        }
        if (saved && status == SDK_GPU_OK) {
            (void)each_written(model, entry, runner, step, PUT_BACK, model->before, &fine);
            entry->step(model->self, dims, (int32_t)index);
            ran = 1;
            (void)each_written(model, entry, runner, step, COMPARE, model->made, &same);
        }
        for (uint32_t d = 0; !same && status == SDK_GPU_OK && d < step->dispatches; ++d) {
            const uint32_t form = sdk_gpu_model_form(model, entry, step->first_dispatch + d);
            model->verdicts[entry->dispatches[form].kernel] = verdict;
        }
        status = same || status != SDK_GPU_OK ? status : sdk_gpu_model_make(model, entry, step);
    }
    if (!ran) {
        entry->step(model->self, dims, (int32_t)index);
    }
    return status;
}

static int prove_entry(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, sdk_gpu_recording_t *recording)
{
    uint32_t seed = 1u;
    int status = SDK_GPU_OK;
    model->plans->reset(model->self);
    sdk_gpu_model_place(model, entry, runner, entry->dims);
    for (uint32_t k = 0; k < entry->input_count; ++k) {
        const sdk_gpu_port_t *const port = &entry->inputs[k];
        const sdk_gpu_place_t *const where = &runner->places[port->place];
        draw(model->memory[port->region] + where->offset, where->bytes, port, &seed);
    }
    status = sdk_gpu_model_live(model, entry, runner);
    for (uint32_t k = 0; status == SDK_GPU_OK && k < entry->step_count; ++k) {
        status = sdk_gpu_model_make(model, entry, &entry->steps[k]); /* another step may have put a plainer form here */
        if (status == SDK_GPU_OK && sdk_gpu_model_usable(model, entry, &entry->steps[k])) {
            status = prove_step(model, entry, runner, k, entry->dims, recording);
        } else {
            entry->step(model->self, entry->dims, (int32_t)k);
        }
    }
    return status;
}

/* How many kernels were wrong, or had more to reach than the device allows. */
static uint32_t wrong(const sdk_gpu_model_t *model)
{
    uint32_t count = 0u;
    for (uint32_t k = 0; k < model->plans->code_count; ++k) {
        count += model->verdicts[k] == SDK_GPU_DIFFERS || model->verdicts[k] == SDK_GPU_OVER_LIMITS ? 1u : 0u;
    }
    return count;
}

int sdk_gpu_model_prove(sdk_gpu_model_t *model)
{
    const sdk_gpu_plans_t *const plans = model->plans;
    sdk_gpu_recording_t *recording = NULL;
    uint32_t max = 1u, before;
    int status;
    for (uint32_t e = 0; e < plans->entry_count; ++e) {
        for (uint32_t k = 0; k < plans->entries[e]->step_count; ++k) {
            const uint32_t dispatches = plans->entries[e]->steps[k].dispatches;
            max = dispatches > max ? dispatches : max;
        }
    }
    status = sdk_gpu_recording(model->gpu, max, 0, &recording);
    do { /* again where one was wrong: another step that it served before then has a form that was not proved there */
        before = wrong(model);
        for (uint32_t e = 0; status == SDK_GPU_OK && e < plans->entry_count; ++e) {
            status = prove_entry(model, plans->entries[e], &model->runners[e], recording);
        }
    } while (status == SDK_GPU_OK && wrong(model) != before);
    sdk_gpu_free_recording(model->gpu, recording);
    return status;
}
