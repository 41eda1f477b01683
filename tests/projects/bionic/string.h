/* Of Android's string.h, what the C of apps calls. */
#include <stddef.h>
void *memcpy(void *, const void *, size_t);
