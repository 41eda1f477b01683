/* Puts a model on a device, and records its plans: see sdk_rt_gpu_model.h. */
#include "sdk_rt_gpu_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for count items of a size, zeroed; never NULL for none. */
static void *room(size_t count, size_t bytes)
{
    return calloc(count == 0u ? 1u : count, bytes);
}

static int no_memory(sdk_gpu_t *gpu)
{
    snprintf(gpu->message, sizeof gpu->message, "no memory of the host is left");
    return SDK_GPU_E_MEMORY;
}

/* ---- places ---- */

void sdk_gpu_model_place(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const void *dims)
{
    memcpy(runner->places, entry->places, entry->place_count * sizeof *entry->places);
    memcpy(runner->numbers, entry->numbers, entry->number_count * sizeof *entry->numbers);
    memcpy(runner->groups, entry->groups, entry->dispatch_count * sizeof *entry->groups);
    if (entry->place != NULL) {
        entry->place(model->self, dims, runner->places, runner->numbers, runner->groups);
    }
}

int sdk_gpu_model_live(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner)
{
    const uint32_t first = entry->number_count - entry->live_count;
    return entry->live_count == 0u ? SDK_GPU_OK
                                   : sdk_gpu_write(model->gpu, model->regions[model->plans->region_count - 1u], 0u,
                                                   &runner->numbers[first], 4u * (uint64_t)entry->live_count);
}

int sdk_gpu_model_up(sdk_gpu_model_t *model, uint16_t region, const sdk_gpu_place_t *where)
{
    if (model->shared[region]) {
        return SDK_GPU_OK;
    }
    model->copied += where->bytes;
    return sdk_gpu_write(model->gpu, model->regions[region], where->offset, model->memory[region] + where->offset,
                         where->bytes);
}

int sdk_gpu_model_down(sdk_gpu_model_t *model, uint16_t region, const sdk_gpu_place_t *where)
{
    if (model->shared[region]) {
        return SDK_GPU_OK;
    }
    model->copied += where->bytes;
    return sdk_gpu_read(model->gpu, model->regions[region], where->offset, model->memory[region] + where->offset,
                        where->bytes);
}

int sdk_gpu_model_turn(sdk_gpu_model_t *model, int to_host)
{
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; status == SDK_GPU_OK && model->with_host != to_host && k < SDK_GPU_SCRATCH; ++k) {
        if (model->shared[k]) {
            status = sdk_gpu_turn(model->gpu, model->regions[k], model->memory[k], model->bytes[k], to_host);
        }
    }
    model->with_host = (uint8_t)to_host;
    return status;
}

/* ---- recording ---- */

/* Whether a dispatch needs a barrier before it: it reads what was written since the last one, or writes what was touched.
   What it touches is noted: of operands that share a binding, all that is bound, by which drivers and layers go. */
static int depends(sdk_gpu_model_t *model, const sdk_gpu_code_t *code, const sdk_gpu_range_t *ranges, uint32_t *touches)
{
    int found = *touches + code->operands > model->touch_room;
    for (uint32_t k = 0; !found && k < code->operands; ++k) {
        const uint64_t begin = code->bindings == NULL ? ranges[k].offset : 0u;
        const uint64_t end = code->bindings == NULL ? begin + ranges[k].bytes : UINT64_MAX;
        for (uint32_t j = 0; !found && j < *touches; ++j) {
            const touch_t *const touch = &model->touched[j];
            found = touch->buffer == ranges[k].buffer && (touch->writes || (code->written >> k & 1u) != 0u) &&
                    touch->begin < end && begin < touch->end;
        }
    }
    *touches = found ? 0u : *touches;
    for (uint32_t k = 0; k < code->operands && *touches < model->touch_room; ++k, ++*touches) {
        touch_t *const touch = &model->touched[*touches];
        touch->begin = code->bindings == NULL ? ranges[k].offset : 0u;
        touch->end = code->bindings == NULL ? touch->begin + ranges[k].bytes : UINT64_MAX;
        touch->buffer = ranges[k].buffer;
        touch->writes = (code->written >> k & 1u) != 0u;
    }
    return found;
}

static int record_step(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, sdk_gpu_recording_t *recording,
                       uint32_t index, uint32_t *touches)
{
    const sdk_gpu_step_t *const step = &entry->steps[index];
    const sdk_gpu_operand_t *const operands = &entry->operands[step->first_operand];
    const sdk_gpu_place_t *const places = &runner->places[step->first_operand];
    sdk_gpu_range_t ranges[SDK_GPU_OPERANDS];
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; status == SDK_GPU_OK && k < step->dispatches; ++k) {
        const uint32_t d = sdk_gpu_model_form(model, entry, step->first_dispatch + k);
        const uint16_t kernel = entry->dispatches[d].kernel;
        const uint16_t *const uses = &entry->uses[entry->dispatches[d].first_use];
        const sdk_gpu_code_t *const code = &model->plans->codes[kernel];
        for (uint32_t j = 0; j < code->operands; ++j) {
            ranges[j].buffer = model->regions[operands[uses[j]].region];
            ranges[j].offset = places[uses[j]].offset;
            ranges[j].bytes = places[uses[j]].bytes;
        }
        if (depends(model, code, ranges, touches)) {
            status = sdk_gpu_record_barrier(model->gpu, recording);
        }
        if (status == SDK_GPU_OK) {
            status = sdk_gpu_record_dispatch(model->gpu, recording, code, model->kernels[kernel], ranges,
                                             &runner->numbers[step->first_number], runner->groups[d]);
        }
    }
    return status;
}

int sdk_gpu_model_record(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const segment_t *segment,
                  sdk_gpu_recording_t *recording)
{
    uint32_t touches = 0u;
    int status = sdk_gpu_record_begin(model->gpu, recording);
    for (uint32_t k = 0; status == SDK_GPU_OK && k < segment->count; ++k) {
        status = record_step(model, entry, runner, recording, segment->first + k, &touches);
    }
    ++model->recorded;
    return status == SDK_GPU_OK ? sdk_gpu_record_end(model->gpu, recording) : status;
}

/* ---- making and freeing ---- */

static void free_runner(sdk_gpu_model_t *model, runner_t *runner)
{
    for (uint32_t s = 0; s < runner->slot_count; ++s) {
        for (uint32_t k = 0; runner->slots[s].segments != NULL && k < runner->segment_count; ++k) {
            sdk_gpu_free_recording(model->gpu, runner->slots[s].segments[k]);
        }
        free(runner->slots[s].segments);
        free(runner->slots[s].dims);
    }
    free(runner->places);
    free(runner->numbers);
    free(runner->groups);
    free(runner->segments);
    free(runner->ns);
    free(runner->stamps);
}

static void free_kernels(sdk_gpu_model_t *model)
{
    for (uint32_t k = 0; model->kernels != NULL && k < model->plans->code_count; ++k) {
        sdk_gpu_free_kernel(model->gpu, model->kernels[k]);
        model->kernels[k] = 0u;
    }
}

void sdk_gpu_model_close(sdk_gpu_model_t *model)
{
    if (model == NULL) {
        return;
    }
    if (model->regions != NULL && sdk_gpu_model_turn(model, 0) == SDK_GPU_OK) {
        (void)sdk_gpu_wait(model->gpu);
    }
    for (uint32_t k = 0; model->runners != NULL && k < model->plans->entry_count; ++k) {
        free_runner(model, &model->runners[k]);
    }
    free_kernels(model);
    for (uint32_t k = 0; model->regions != NULL && k < model->plans->region_count; ++k) {
        sdk_gpu_free_buffer(model->gpu, model->regions[k]);
    }
    free(model->runners);
    free(model->kernels);
    free(model->regions);
    free(model->verdicts);
    free(model->ended);
    free(model->touched);
    free(model->made);
    free(model->before);
    free(model->kept);
    free(model);
}

static int make_regions(sdk_gpu_model_t *model)
{
    const sdk_gpu_plans_t *const plans = model->plans;
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; status == SDK_GPU_OK && k < plans->region_count; ++k) {
        if (k < SDK_GPU_SCRATCH) {
            status = sdk_gpu_share(model->gpu, model->memory[k], model->bytes[k], &model->regions[k]);
            model->shared[k] = status == SDK_GPU_OK;
        }
        if (k >= SDK_GPU_SCRATCH || !model->shared[k]) {
            status = sdk_gpu_buffer(model->gpu, plans->region_bytes[k], &model->regions[k]);
        }
    }
    for (uint32_t k = 0; status == SDK_GPU_OK && k < plans->upload_count; ++k) {
        const sdk_gpu_upload_t *const one = &plans->uploads[k];
        const void *const data = one->data != NULL ? one->data : model->weights + one->from;
        status = sdk_gpu_write(model->gpu, model->regions[one->region], one->offset, data, one->bytes);
    }
    return status;
}

/* A kernel that the driver does not take gets its verdict; anything else that fails is an error. */
static int make_kernel(sdk_gpu_model_t *model, uint32_t k)
{
    size_t bytes = 0u;
    const void *const kept = sdk_gpu_model_kept(model, k, &bytes);
    int status;
    if (model->verdicts[k] != SDK_GPU_RUNS || model->kernels[k] != 0u) {
        return SDK_GPU_OK;
    }
    sdk_gpu_model_trying(model, k);
    status = sdk_gpu_kernel(model->gpu, &model->plans->codes[k], kept, bytes, &model->kernels[k]);
    if (status == SDK_GPU_E_BUILD || status == SDK_GPU_E_LIMIT) {
        if (model->kept != NULL) {
            return status;
        }
        model->verdicts[k] = status == SDK_GPU_E_BUILD ? SDK_GPU_NOT_BUILT : SDK_GPU_OVER_LIMITS;
        status = SDK_GPU_OK;
    }
    return status;
}

uint32_t sdk_gpu_model_form(const sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, uint32_t d)
{
    while (model->verdicts[entry->dispatches[d].kernel] != SDK_GPU_RUNS && entry->dispatches[d].instead != 0u) {
        d += entry->dispatches[d].instead;
    }
    return d;
}

int sdk_gpu_model_make(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const sdk_gpu_step_t *step)
{
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; status == SDK_GPU_OK && k < step->dispatches; ++k) {
        uint32_t d = step->first_dispatch + k, before;
        do {
            before = sdk_gpu_model_form(model, entry, d);
            status = make_kernel(model, entry->dispatches[before].kernel);
            d = sdk_gpu_model_form(model, entry, before);
        } while (status == SDK_GPU_OK && d != before);
    }
    return status;
}

static int make_kernels(sdk_gpu_model_t *model)
{
    int status = SDK_GPU_OK;
    for (uint32_t e = 0; status == SDK_GPU_OK && e < model->plans->entry_count; ++e) {
        const sdk_gpu_entry_t *const entry = model->plans->entries[e];
        for (uint32_t k = 0; status == SDK_GPU_OK && k < entry->step_count; ++k) {
            status = sdk_gpu_model_make(model, entry, &entry->steps[k]);
        }
    }
    if (model->kept != NULL && (status == SDK_GPU_E_BUILD || status == SDK_GPU_E_LIMIT)) {
        sdk_gpu_model_forget(model); /* another driver than it says: all anew */
        free_kernels(model);
        return make_kernels(model);
    }
    return status;
}

static int make_runner(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner)
{
    runner->places = room(entry->place_count, sizeof *runner->places);
    runner->numbers = room(entry->number_count, sizeof *runner->numbers);
    runner->groups = room(entry->dispatch_count, sizeof *runner->groups);
    runner->segments = room(entry->step_count, sizeof *runner->segments);
    runner->ns = room(entry->step_count, sizeof *runner->ns);
    runner->stamps = room(entry->dispatch_count, sizeof *runner->stamps);
    if (entry->operand_count + SDK_GPU_OPERANDS > model->touch_room) {
        model->touch_room = entry->operand_count + SDK_GPU_OPERANDS;
    }
    if (runner->places == NULL || runner->numbers == NULL || runner->groups == NULL || runner->segments == NULL ||
        runner->ns == NULL || runner->stamps == NULL) {
        return no_memory(model->gpu);
    }
    return SDK_GPU_OK;
}

/* Which steps run on the device is known: segments, and recordings of them for each slot. */
static int make_slots(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner)
{
    for (uint32_t k = 0; k < entry->step_count; ++k) {
        const int on_device = sdk_gpu_model_usable(model, entry, &entry->steps[k]);
        segment_t *const before = runner->segment_count > 0u ? &runner->segments[runner->segment_count - 1u] : NULL;
        if (before != NULL && on_device && before->on_device && !model->stepped) {
            before->count += 1u;
            before->dispatches += entry->steps[k].dispatches;
        } else {
            const segment_t segment = {k, 1u, entry->steps[k].dispatches, on_device};
            runner->segments[runner->segment_count++] = segment;
        }
    }
    runner->slot_count = entry->dim_count > 0u ? SLOTS : 1u;
    for (uint32_t s = 0; s < runner->slot_count; ++s) {
        slot_t *const slot = &runner->slots[s];
        slot->dims = room(entry->dim_count, sizeof *slot->dims);
        slot->segments = room(runner->segment_count, sizeof(sdk_gpu_recording_t *));
        if (slot->dims == NULL || slot->segments == NULL) {
            return no_memory(model->gpu);
        }
        for (uint32_t k = 0; k < runner->segment_count; ++k) {
            if (runner->segments[k].on_device) {
                const int status = sdk_gpu_recording(model->gpu, runner->segments[k].dispatches,
                                                     model->timed && !model->stepped, &slot->segments[k]);
                if (status != SDK_GPU_OK) {
                    return status;
                }
            }
        }
    }
    return SDK_GPU_OK;
}

/* Whether another form of a kernel runs on the device. */
static int plainer(const sdk_gpu_model_t *model, uint32_t kernel)
{
    for (uint32_t e = 0; e < model->plans->entry_count; ++e) {
        const sdk_gpu_entry_t *const entry = model->plans->entries[e];
        for (uint32_t d = 0; d < entry->dispatch_count; ++d) {
            if (entry->dispatches[d].kernel == kernel &&
                model->verdicts[entry->dispatches[sdk_gpu_model_form(model, entry, d)].kernel] == SDK_GPU_RUNS) {
                return 1;
            }
        }
    }
    return 0;
}

static void tell(const sdk_gpu_model_t *model, void (*told)(const char *line))
{
    static const char *const WHY[] = {"", "the driver does not compile it", "it asks for more than the device has",
                                      "its results on the device are not those of the processor",
                                      "the driver did not return from it in earlier starts"};
    char line[512];
    const char *how;
    for (uint32_t e = 0; told != NULL && e < model->plans->entry_count; ++e) {
        const sdk_gpu_entry_t *const entry = model->plans->entries[e];
        for (uint32_t k = 0; k < entry->step_count; ++k) {
            if (entry->steps[k].why != NULL) {
                snprintf(line, sizeof line, "step %lu of %.60s, %.120s, runs on the processor: %.240s", (unsigned long)k,
                         entry->name, entry->steps[k].name, entry->steps[k].why);
                told(line);
            }
        }
    }
    for (uint32_t k = 0; told != NULL && k < model->plans->code_count; ++k) {
        if (model->verdicts[k] != SDK_GPU_RUNS) {
            how = plainer(model, k) ? "is replaced by a plainer one" : "runs on the processor";
            snprintf(line, sizeof line, "%.80s: kernel %.160s %s: %s", model->gpu->device.name, model->plans->codes[k].name, how,
                     WHY[model->verdicts[k]]);
            told(line);
        }
    }
}

int sdk_gpu_model_open(sdk_gpu_t *gpu, const sdk_gpu_plans_t *plans, void *self, uint8_t *arena, uint64_t arena_bytes,
                       uint8_t *state, uint64_t state_bytes, const void *weights, void (*told)(const char *line),
                       sdk_gpu_model_t **out)
{
    sdk_gpu_model_t *model;
    uint8_t *held = NULL; /* what was in the arena: the proof runs there, and inputs may be there already */
    uint64_t proved;
    int status = SDK_GPU_OK;
    if (gpu == NULL || plans == NULL || self == NULL || out == NULL ||
        state_bytes > plans->region_bytes[SDK_GPU_STATE]) {
        return SDK_GPU_E_ARG;
    }
    *out = NULL;
    model = room(1u, sizeof *model);
    if (model == NULL) {
        return no_memory(gpu);
    }
    model->gpu = gpu;
    model->plans = plans;
    model->self = self;
    model->memory[SDK_GPU_ARENA] = arena;
    model->memory[SDK_GPU_STATE] = state;
    model->weights = weights;
    proved = plans->region_bytes[SDK_GPU_ARENA] + plans->region_bytes[SDK_GPU_STATE];
    model->bytes[SDK_GPU_ARENA] =
        arena_bytes < plans->region_bytes[SDK_GPU_ARENA] ? arena_bytes : plans->region_bytes[SDK_GPU_ARENA];
    model->bytes[SDK_GPU_STATE] = state_bytes;
    model->with_host = 1u;
    model->state_changed = 1;
    model->trying = plans->code_count; /* none yet */
    model->timed = gpu->now != NULL;
    model->stepped = model->timed && gpu->limits.tick_ps == 0u;
    model->regions = room(plans->region_count, sizeof *model->regions);
    model->kernels = room(plans->code_count, sizeof *model->kernels);
    model->verdicts = room(plans->code_count, 1u);
    model->ended = room(plans->code_count, 1u);
    model->runners = room(plans->entry_count, sizeof *model->runners);
    if (model->regions == NULL || model->kernels == NULL || model->verdicts == NULL || model->ended == NULL ||
        model->runners == NULL) {
        status = no_memory(gpu);
    }
    for (uint32_t e = 0; status == SDK_GPU_OK && e < plans->entry_count; ++e) {
        status = make_runner(model, plans->entries[e], &model->runners[e]);
    }
    if (status == SDK_GPU_OK) {
        model->touched = room(model->touch_room, sizeof *model->touched);
        model->made = room((size_t)proved, 1u);
        model->before = room((size_t)proved, 1u);
        status = model->touched == NULL || model->made == NULL || model->before == NULL ? no_memory(gpu)
                                                                                        : make_regions(model);
    }
    if (status == SDK_GPU_OK) {
        sdk_gpu_model_load(model);
        status = make_kernels(model);
    }
    if (status == SDK_GPU_OK && model->kept == NULL) {
        held = room((size_t)arena_bytes, 1u);
        status = held == NULL ? no_memory(gpu) : SDK_GPU_OK;
    }
    if (held != NULL) {
        if (arena_bytes > 0u) {
            memcpy(held, arena, (size_t)arena_bytes);
        }
        status = sdk_gpu_model_prove(model);
        if (arena_bytes > 0u) {
            memcpy(arena, held, (size_t)arena_bytes);
        }
        free(held);
        if (status == SDK_GPU_OK) {
            sdk_gpu_model_save(model);
        }
    }
    plans->reset(self);
    sdk_gpu_model_tried(model, status == SDK_GPU_E_LOST);
    for (uint32_t e = 0; status == SDK_GPU_OK && e < plans->entry_count; ++e) {
        status = make_slots(model, plans->entries[e], &model->runners[e]);
    }
    if (status != SDK_GPU_OK) {
        sdk_gpu_model_close(model);
        return status;
    }
    free(model->made);
    free(model->before);
    model->made = model->before = NULL;
    model->recorded = 0u;
    model->copied = 0u;
    tell(model, told);
    *out = model;
    return SDK_GPU_OK;
}
