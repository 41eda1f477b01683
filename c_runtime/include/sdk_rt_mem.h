/* The memory functions that compilers call by themselves; a bare-metal port defines them. */
#ifndef SDK_RT_MEM_H
#define SDK_RT_MEM_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

#endif /* SDK_RT_MEM_H */
