/* Of Android's stdlib.h, what the C of apps calls: there is no NDK here, and zig has no headers of Android. */
#include <stddef.h>
void *calloc(size_t, size_t);
void *malloc(size_t);
void *realloc(void *, size_t);
void free(void *);
