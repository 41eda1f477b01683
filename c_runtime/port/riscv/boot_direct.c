/* The two words by which the ROM of ESP32-C3 and C6 knows an image that runs from flash as it is: it starts behind them. */
#include "internal/bare.h"

#define RUNS_FROM_FLASH 0xAEDB041Du

__attribute__((section(".boot"), used)) static const uint32_t boot[2] = {RUNS_FROM_FLASH, RUNS_FROM_FLASH};
