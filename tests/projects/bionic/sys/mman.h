#include <stddef.h>
#include <stdint.h>
#define PROT_READ 1
#define MAP_SHARED 1
#define MAP_FAILED ((void *)-1)
void *mmap(void *at, size_t bytes, int protection, int flags, int file, int64_t offset);
int munmap(void *at, size_t bytes);
