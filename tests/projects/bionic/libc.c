/* What stands for Android's libc.so where a library is linked: what compilers and the C of apps may want of it. */
#include <stddef.h>
void *calloc(size_t n, size_t bytes) { return (void *)(n + bytes); }
void free(void *at) { (void)at; }
void *memcpy(void *to, const void *from, size_t bytes) { (void)from; (void)bytes; return to; }
void *memmove(void *to, const void *from, size_t bytes) { (void)from; (void)bytes; return to; }
void *memset(void *to, int value, size_t bytes) { (void)value; (void)bytes; return to; }
unsigned long getauxval(unsigned long type) { return type; }
int open(const char *path, int flags, ...) { (void)path; return flags; }
int close(int file) { return file; }
long long lseek(int file, long long offset, int from) { return file + offset + from; }
void *mmap(void *at, size_t bytes, int a, int b, int c, long long d) { (void)bytes; return a + b + c + d ? at : 0; }
int munmap(void *at, size_t bytes) { (void)at; (void)bytes; return 0; }
