/* STM32's OCTOSPI (RM0456 and RM0432, OCTOSPI): resets a flash chip by commands, then maps it to be read. */
#include "internal/bare.h"
#include "internal/external.h"

#if defined(SDK_RT_EXTERNAL)
#define REG(offset) SDK_RT_REG(SDK_RT_EXTERNAL_BASE + (offset))
#define CR REG(0x000u)
#define CR_ENABLE 1u
#define CR_WRITE CR_ENABLE
#define CR_READ (1u << 28 | CR_ENABLE)
#define CR_MAPPED (3u << 28 | CR_ENABLE)
#define DCR1 REG(0x008u)
#define DCR1_REST(cycles) (((cycles) - 1u) << 8)
#define DCR1_SIZE(log2) (((log2) - 1u) << 16)
#define DCR1_NO_DELAY (1u << 3) /* the delay block is for data at both edges */
#define DCR2 REG(0x00Cu)
#define SR REG(0x020u)
#define SR_COMPLETE 2u
#define SR_DATA 4u
#define SR_BUSY (1u << 5)
#define FCR REG(0x024u)
#define DLR REG(0x040u)
#define DR SDK_RT_REG8(SDK_RT_EXTERNAL_BASE + 0x050u)
#define CCR REG(0x100u)
#define CCR_BOTH_EDGES (1u << 3) /* of the instruction */
#define TCR REG(0x108u)
#define TCR_QUARTER (1u << 28) /* what goes at both edges goes a quarter of a cycle later */
#define TCR_LATE (1u << 30)    /* sample half a cycle later */
#define IR REG(0x110u)

static uint32_t mode(uint32_t lines) /* 1, 2, 4 or 8 */
{
    return lines == 8u ? 4u : lines == 4u ? 3u : lines;
}

static void completed(void)
{
    for (uint32_t looks = 0; (SR & SR_COMPLETE) == 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    FCR = SR_COMPLETE;
    for (uint32_t looks = 0; (SR & SR_BUSY) != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
}

static void send(const sdk_rt_flash_command_t *command)
{
    CR = CR_WRITE;
    TCR = command->both_edges ? TCR_QUARTER : 0u;
    CCR = (command->bytes - 1u) << 4 | (command->both_edges ? CCR_BOTH_EDGES : 0u) | mode(command->lines);
    IR = command->instruction; /* nothing follows: this sends it */
    completed();
}

static uint8_t status(void)
{
    CR = CR_READ;
    DLR = 0; /* one byte */
    TCR = TCR_LATE;
    CCR = mode(1) << 24 | mode(1);
    IR = sdk_rt_flash.status;
    for (uint32_t looks = 0; (SR & (SR_DATA | SR_COMPLETE)) == 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    uint8_t found = DR;
    completed();
    return found;
}

void sdk_rt_external_map(void)
{
    const sdk_rt_flash_t *chip = &sdk_rt_flash;
    DCR1 = DCR1_SIZE((uint32_t)chip->size_log2) | DCR1_REST((uint32_t)chip->rest_cycles) | DCR1_NO_DELAY;
    DCR2 = chip->divider - 1u;
    for (uint32_t i = 0; i < chip->resets; ++i) {
        send(&chip->reset[i]);
    }
    sdk_rt_wait_us(chip->recovers_us); /* until then nobody answers */
    for (uint32_t looks = 0; (status() & chip->busy) != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    CR = CR_WRITE;
    TCR = TCR_LATE | chip->dummy_cycles;
    CCR = mode(chip->data_lines) << 24 | (chip->address_bytes - 1u) << 12 | mode(chip->address_lines) << 8
          | mode(chip->instruction_lines);
    IR = chip->read; /* an address belongs to it: it waits for one */
    CR = CR_MAPPED;
}
#endif
