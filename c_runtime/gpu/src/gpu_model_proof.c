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

/* Copies what a step will write, as it is before, out of the host's memory; 0 where there is no room for that, as where
   operands that are written share bytes. */
static int save(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner, const sdk_gpu_step_t *step)
{
    const uint64_t most = model->plans->region_bytes[SDK_GPU_ARENA] + model->plans->region_bytes[SDK_GPU_STATE];
    uint64_t at = 0u;
    for (uint32_t k = step->first_operand; k < step->first_operand + step->operands; ++k) {
        const sdk_gpu_operand_t *const operand = &entry->operands[k];
        if (operand->writes && operand->region < SDK_GPU_SCRATCH) {
            if (runner->places[k].bytes > most - at) {
                return 0;
            }
            memcpy(model->before + at, model->memory[operand->region] + runner->places[k].offset, (size_t)runner->places[k].bytes);
            at += runner->places[k].bytes;
        }
    }
    return 1;
}

/* Runs a step on the device from what the host had before it. What it writes comes from `before`. */
static int attempt(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const segment_t *segment,
                   sdk_gpu_recording_t *recording)
{
    const sdk_gpu_step_t *const step = &entry->steps[segment->first];
    uint64_t at = 0u;
    int status = SDK_GPU_OK;
    for (int written = 0; written < 2; ++written) { /* those that are written last: others may share their bytes */
        for (uint32_t k = step->first_operand; status == SDK_GPU_OK && k < step->first_operand + step->operands; ++k) {
            const sdk_gpu_operand_t *const operand = &entry->operands[k];
            const sdk_gpu_place_t *const where = &runner->places[k];
            if (operand->region < SDK_GPU_SCRATCH && operand->writes == written) {
                status = written ? sdk_gpu_write(model->gpu, model->regions[operand->region], where->offset, model->before + at,
                                                 where->bytes)
                                 : sdk_gpu_model_up(model, operand->region, where);
                at += written ? where->bytes : 0u;
            }
        }
    }
    status = status == SDK_GPU_OK ? sdk_gpu_model_record(model, entry, runner, segment, recording) : status;
    if (status == SDK_GPU_OK) {
        sdk_gpu_model_trying(model, entry->dispatches[sdk_gpu_model_form(model, entry, step->first_dispatch)].kernel);
        status = sdk_gpu_submit(model->gpu, recording);
        status = status == SDK_GPU_OK ? sdk_gpu_wait(model->gpu) : status;
    }
    return status;
}

/* Whether the device has written what the host has. */
static int compare(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner, const sdk_gpu_step_t *step,
                   int *same)
{
    int status = SDK_GPU_OK;
    *same = 1;
    for (uint32_t k = step->first_operand; *same && status == SDK_GPU_OK && k < step->first_operand + step->operands; ++k) {
        const sdk_gpu_operand_t *const operand = &entry->operands[k];
        const sdk_gpu_place_t *const where = &runner->places[k];
        if (operand->writes && operand->region < SDK_GPU_SCRATCH) {
            status = sdk_gpu_read(model->gpu, model->regions[operand->region], where->offset, model->scratch, where->bytes);
            *same = agrees(model->scratch, model->memory[operand->region] + where->offset, where->bytes, operand->element);
        }
    }
    return status;
}

/* Runs a step as C and each of its forms on the device, from the same bytes, until one agrees. The host keeps the results
   of C. */
static int prove_step(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, uint32_t index, const void *dims,
                      sdk_gpu_recording_t *recording)
{
    const sdk_gpu_step_t *const step = &entry->steps[index];
    const segment_t segment = {index, 1u, step->dispatches, 1};
    const int saved = save(model, entry, runner, step);
    uint8_t verdict;
    int same = 0, ran = 0;
    int status = SDK_GPU_OK;
    while (!same && status == SDK_GPU_OK && sdk_gpu_model_usable(model, entry, step)) {
        status = saved ? attempt(model, entry, runner, &segment, recording) : SDK_GPU_E_LIMIT;
        if (!ran) {
            entry->step(model->self, dims, (int32_t)index);
            ran = 1;
        }
        verdict = status == SDK_GPU_E_LIMIT ? SDK_GPU_OVER_LIMITS : SDK_GPU_DIFFERS;
        if (status == SDK_GPU_OK) {
            status = compare(model, entry, runner, step, &same);
        } else if (status == SDK_GPU_E_LIMIT || status == SDK_GPU_E_ARG) {
            status = SDK_GPU_OK;
        }
        for (uint32_t d = 0; !same && status == SDK_GPU_OK && d < step->dispatches; ++d) {
            const uint32_t form = sdk_gpu_model_form(model, entry, step->first_dispatch + d);
            model->verdicts[entry->dispatches[form].kernel] = verdict;
        }
        status = same || status != SDK_GPU_OK ? status : sdk_gpu_model_make(model, entry, step);
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
    uint32_t most = 1u, before;
    int status;
    for (uint32_t e = 0; e < plans->entry_count; ++e) {
        for (uint32_t k = 0; k < plans->entries[e]->step_count; ++k) {
            const uint32_t dispatches = plans->entries[e]->steps[k].dispatches;
            most = dispatches > most ? dispatches : most;
        }
    }
    status = sdk_gpu_recording(model->gpu, most, 0, &recording);
    do { /* again where one was wrong: another step that it served before then has a form that was not proved there */
        before = wrong(model);
        for (uint32_t e = 0; status == SDK_GPU_OK && e < plans->entry_count; ++e) {
            status = prove_entry(model, plans->entries[e], &model->runners[e], recording);
        }
    } while (status == SDK_GPU_OK && wrong(model) != before);
    sdk_gpu_free_recording(model->gpu, recording);
    return status;
}
