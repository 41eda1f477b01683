/* What a board sets before its drivers run: nothing, unless its file has it; then the build prints another of these. */
#include "internal/bare.h"

__attribute__((weak)) void sdk_rt_board_setup(void)
{
}
