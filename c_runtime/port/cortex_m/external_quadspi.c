/* STM32's QUADSPI (RM0385, 14; RM0351, QUADSPI): resets a flash chip by commands, then maps it to be read. */
#include "internal/bare.h"
#include "internal/external.h"

#if defined(SDK_RT_EXTERNAL)
#define REG(offset) SDK_RT_REG(SDK_RT_EXTERNAL_BASE + (offset))
#define CR REG(0x00u)
#define CR_ENABLE 1u
#define CR_LATE (1u << 4) /* sample half a cycle later */
#define CR_DIVIDER(n) (((n) - 1u) << 24)
#define DCR REG(0x04u)
#define DCR_REST(cycles) (((cycles) - 1u) << 8)
#define DCR_SIZE(log2) (((log2) - 1u) << 16)
#define SR REG(0x08u)
#define SR_COMPLETE 2u
#define SR_DATA 4u
#define SR_BUSY (1u << 5)
#define FCR REG(0x0Cu)
#define DLR REG(0x10u)
#define CCR REG(0x14u)
#define CCR_READ (1u << 26)
#define CCR_MAPPED (3u << 26)
#define DR SDK_RT_REG8(SDK_RT_EXTERNAL_BASE + 0x20u)
#define REST_MAX 8u

static uint32_t mode(uint32_t lines) /* 1, 2 or 4 */
{
    return lines == 4u ? 3u : lines;
}

static void completed(void)
{
    for (uint32_t looks = 0; (SR & SR_COMPLETE) == 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    FCR = SR_COMPLETE;
    for (uint32_t looks = 0; (SR & SR_BUSY) != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
}

static uint8_t status(void)
{
    DLR = 0; /* one byte */
    CCR = CCR_READ | mode(1) << 24 | mode(1) << 8 | sdk_rt_flash.status;
    for (uint32_t looks = 0; (SR & (SR_DATA | SR_COMPLETE)) == 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    uint8_t found = DR;
    completed();
    return found;
}

void sdk_rt_external_map(void)
{
    const sdk_rt_flash_t *chip = &sdk_rt_flash;
    uint32_t rest = chip->rest_cycles < REST_MAX ? chip->rest_cycles : REST_MAX;
    DCR = DCR_SIZE((uint32_t)chip->size_log2) | DCR_REST(rest);
    CR = CR_DIVIDER((uint32_t)chip->divider) | CR_LATE | CR_ENABLE;
    for (uint32_t i = 0; i < chip->resets; ++i) {
        CCR = mode(chip->reset[i].lines) << 8 | chip->reset[i].instruction;
        completed();
    }
    sdk_rt_wait_us(chip->recovers_us); /* until then nobody answers */
    for (uint32_t looks = 0; (status() & chip->busy) != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    CCR = CCR_MAPPED | mode(chip->data_lines) << 24 | (uint32_t)chip->dummy_cycles << 18
          | (chip->address_bytes - 1u) << 12 | mode(chip->address_lines) << 10 | mode(chip->instruction_lines) << 8
          | chip->read;
}
#endif
