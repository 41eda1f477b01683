/* Runs the plans of a model on a device, and times their steps: see sdk_rt_gpu_model.h. */
#include "sdk_rt_gpu_inside.h"

#include <string.h>

/* Whether recordings that were made for some dims are of use for others. */
static int serves(const sdk_gpu_entry_t *entry, const int32_t *made, const int32_t *dims)
{
    for (uint32_t k = 0; k < entry->dim_count; ++k) {
        if (entry->recorded[k] && made[k] != dims[k]) {
            return 0;
        }
    }
    return 1;
}

/* The recordings for these dims: those of a slot that has them, or made in the one that was not used for longest. The
   places of the runner are those of the dims then. */
static int find_slot(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const int32_t *dims, slot_t **out)
{
    slot_t *oldest = &runner->slots[0];
    for (uint32_t k = 0; k < runner->slot_count; ++k) {
        slot_t *const slot = &runner->slots[k];
        if (slot->valid && serves(entry, slot->dims, dims)) {
            slot->used = ++model->clock;
            *out = slot;
            return SDK_GPU_OK;
        }
        oldest = slot->used < oldest->used ? slot : oldest;
    }
    oldest->valid = 0;
    for (uint32_t k = 0; k < runner->segment_count; ++k) {
        if (runner->segments[k].on_device) {
            const int status = sdk_gpu_model_record(model, entry, runner, &runner->segments[k], oldest->segments[k]);
            if (status != SDK_GPU_OK) {
                return status;
            }
        }
    }
    if (entry->dim_count > 0u) {
        memcpy(oldest->dims, dims, entry->dim_count * sizeof *dims);
    }
    oldest->valid = 1;
    oldest->used = ++model->clock;
    *out = oldest;
    return SDK_GPU_OK;
}

/* What a step that runs as C needs of the device, or the device of it. */
static int move_operands(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, const runner_t *runner, uint32_t index, int to_device)
{
    const sdk_gpu_step_t *const step = &entry->steps[index];
    for (uint32_t k = step->first_operand; k < step->first_operand + step->operands; ++k) {
        const sdk_gpu_operand_t *const operand = &entry->operands[k];
        if (operand->region < SDK_GPU_SCRATCH && (to_device ? operand->up : operand->down)) {
            const int status = to_device ? sdk_gpu_model_up(model, operand->region, &runner->places[k])
                                         : sdk_gpu_model_down(model, operand->region, &runner->places[k]);
            if (status != SDK_GPU_OK) {
                return status;
            }
        }
    }
    return SDK_GPU_OK;
}

static int move_ports(sdk_gpu_model_t *model, const runner_t *runner, const sdk_gpu_port_t *ports, uint32_t count, int to_device)
{
    int status = SDK_GPU_OK;
    for (uint32_t k = 0; status == SDK_GPU_OK && k < count; ++k) {
        if (ports[k].region < SDK_GPU_SCRATCH) {
            const sdk_gpu_place_t *const where = &runner->places[ports[k].place];
            status = to_device ? sdk_gpu_model_up(model, ports[k].region, where)
                               : sdk_gpu_model_down(model, ports[k].region, where);
        }
    }
    return status;
}

/* Submits a segment; where the host times steps it waits for it too. */
static int submit(sdk_gpu_model_t *model, runner_t *runner, const segment_t *segment, sdk_gpu_recording_t *recording)
{
    const uint64_t begin = model->stepped ? model->gpu->now() : 0u;
    int status = sdk_gpu_model_turn(model, 0);
    status = status == SDK_GPU_OK ? sdk_gpu_submit(model->gpu, recording) : status;
    if (model->stepped && status == SDK_GPU_OK) {
        status = sdk_gpu_wait(model->gpu);
        runner->ns[segment->first] = model->gpu->now() - begin;
    }
    return status;
}

/* What each step of a segment took, of its dispatches' time stamps. */
static void stamp(sdk_gpu_model_t *model, const sdk_gpu_entry_t *entry, runner_t *runner, const segment_t *segment,
                  sdk_gpu_recording_t *recording)
{
    const uint64_t *stamps = runner->stamps;
    if (sdk_gpu_times(model->gpu, recording, runner->stamps, segment->dispatches) != SDK_GPU_OK) {
        model->gpu->limits.tick_ps = 0u; /* the next model is timed by the host */
        return;
    }
    for (uint32_t k = segment->first; k < segment->first + segment->count; ++k) {
        runner->ns[k] = 0u;
        for (uint32_t d = 0; d < entry->steps[k].dispatches; ++d) {
            runner->ns[k] += *stamps++;
        }
    }
}

int sdk_gpu_model_run(sdk_gpu_model_t *model, uint32_t index, const void *dims)
{
    const sdk_gpu_entry_t *entry;
    runner_t *runner;
    slot_t *slot = NULL;
    int status = SDK_GPU_OK;
    if (model == NULL || index >= model->plans->entry_count || (dims == NULL && model->plans->entries[index]->dim_count > 0u)) {
        return SDK_GPU_E_ARG;
    }
    entry = model->plans->entries[index];
    runner = &model->runners[index];
    if (entry->place != NULL || !runner->slots[0].valid) {
        sdk_gpu_model_place(model, entry, runner, dims);
    }
    if (model->state_changed && model->bytes[SDK_GPU_STATE] > 0u) {
        const sdk_gpu_place_t whole = {0u, model->bytes[SDK_GPU_STATE]};
        status = sdk_gpu_model_up(model, SDK_GPU_STATE, &whole);
    }
    model->state_changed = 0;
    status = status == SDK_GPU_OK ? sdk_gpu_model_live(model, entry, runner) : status;
    status = status == SDK_GPU_OK ? move_ports(model, runner, entry->inputs, entry->input_count, 1) : status;
    status = status == SDK_GPU_OK ? find_slot(model, entry, runner, dims, &slot) : status;
    for (uint32_t k = 0; status == SDK_GPU_OK && k < runner->segment_count; ++k) {
        const segment_t *const segment = &runner->segments[k];
        if (segment->on_device) {
            status = submit(model, runner, segment, slot->segments[k]);
            continue;
        }
        status = move_operands(model, entry, runner, segment->first, 0);
        status = status == SDK_GPU_OK ? sdk_gpu_model_turn(model, 1) : status;
        if (status == SDK_GPU_OK) {
            entry->step(model->self, dims, (int32_t)segment->first);
            status = move_operands(model, entry, runner, segment->first, 1);
        }
    }
    status = status == SDK_GPU_OK ? sdk_gpu_wait(model->gpu) : status;
    for (uint32_t k = 0; status == SDK_GPU_OK && model->timed && !model->stepped && k < runner->segment_count; ++k) {
        if (runner->segments[k].on_device) {
            stamp(model, entry, runner, &runner->segments[k], slot->segments[k]);
        }
    }
    status = status == SDK_GPU_OK ? move_ports(model, runner, entry->outputs, entry->output_count, 0) : status;
    const int back = sdk_gpu_model_turn(model, 1); /* whatever happened: callers write inputs there */
    return status == SDK_GPU_OK ? back : status;
}

void sdk_gpu_model_state_changed(sdk_gpu_model_t *model)
{
    if (model != NULL) {
        model->state_changed = 1;
    }
}

int sdk_gpu_model_fetch_state(sdk_gpu_model_t *model)
{
    const sdk_gpu_place_t whole = {0u, model == NULL ? 0u : model->bytes[SDK_GPU_STATE]};
    return model == NULL || model->state_changed || whole.bytes == 0u ? SDK_GPU_OK
                                                                      : sdk_gpu_model_down(model, SDK_GPU_STATE, &whole);
}

uint64_t sdk_gpu_model_ns(const sdk_gpu_model_t *model, uint32_t entry, uint32_t step)
{
    const int known = model != NULL && entry < model->plans->entry_count && step < model->plans->entries[entry]->step_count;
    return known ? model->runners[entry].ns[step] : 0u;
}

uint64_t sdk_gpu_model_copied(const sdk_gpu_model_t *model)
{
    return model == NULL ? 0u : model->copied;
}

uint32_t sdk_gpu_model_recorded(const sdk_gpu_model_t *model)
{
    return model == NULL ? 0u : model->recorded;
}

uint8_t sdk_gpu_model_verdict(const sdk_gpu_model_t *model, uint32_t kernel)
{
    return model == NULL || kernel >= model->plans->code_count ? (uint8_t)SDK_GPU_NOT_BUILT : model->verdicts[kernel];
}
