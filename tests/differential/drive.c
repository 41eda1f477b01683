/* Runs the models of a batch, case after case, on what the host put into memory. */
#include "sdk_rt.h"
#include "sdk_rt_mem.h"

extern const sdk_rt_model_t *const batch_models[];

/* words: the model's number, the cases, then for each case the values of the dims and the bytes of each tensor; the
   inputs of all cases follow each other in in, the outputs in out. The first status that is not 0 ends it. */
__attribute__((section(".text.drive"), used)) int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out);

__attribute__((section(".text.drive"), used)) int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out)
{
    const sdk_rt_model_t *const model = batch_models[words[0]];
    const int32_t cases = words[1];
    int status = model->init();
    words += 2;
    for (int32_t k = 0; k < cases && status == 0; ++k) {
        const int32_t *const dims = words;
        words += model->dim_count;
        for (uint16_t t = 0; t < model->input_count; ++t) {
            memcpy(model->data(t), in, (size_t)*words);
            in += *words++;
        }
        status = model->run(dims);
        for (uint16_t t = 0; t < model->output_count; ++t) {
            memcpy(out, model->data((uint16_t)(model->input_count + t)), (size_t)*words);
            out += *words++;
        }
    }
    return status;
}
