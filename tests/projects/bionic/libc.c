/* What stands for Android's libc.so where a library is linked: what compilers and the C of apps may want of it. */
#include <stddef.h>
void *calloc(size_t n, size_t bytes) { return (void *)(n + bytes); }
void free(void *at) { (void)at; }
void *malloc(size_t bytes) { return (void *)bytes; }
void *realloc(void *at, size_t bytes) { (void)bytes; return at; }
int memcmp(const void *a, const void *b, size_t bytes) { (void)a; (void)b; return (int)bytes; }
size_t strlen(const char *text) { return (size_t)text; }
int strncmp(const char *a, const char *b, size_t most) { (void)a; (void)b; return (int)most; }
char *strstr(const char *in, const char *text) { (void)text; return (char *)in; }
int snprintf(char *out, size_t most, const char *how, ...) { (void)out; (void)how; return (int)most; }
void *fopen(const char *path, const char *how) { (void)how; return (void *)path; }
int fclose(void *file) { return file == 0; }
int fseek(void *file, long to, int from) { (void)file; (void)to; return from; }
long ftell(void *file) { return (long)file; }
size_t fread(void *to, size_t size, size_t count, void *file) { (void)to; (void)file; return size * count; }
size_t fwrite(const void *from, size_t size, size_t count, void *file) { (void)from; (void)file; return size * count; }
int remove(const char *path) { return path == 0; }
int rename(const char *from, const char *to) { return from == to; }
int pthread_mutex_lock(void *mutex) { return mutex == 0; }
int pthread_mutex_unlock(void *mutex) { return mutex == 0; }
void *memcpy(void *to, const void *from, size_t bytes) { (void)from; (void)bytes; return to; }
void *memmove(void *to, const void *from, size_t bytes) { (void)from; (void)bytes; return to; }
void *memset(void *to, int value, size_t bytes) { (void)value; (void)bytes; return to; }
unsigned long getauxval(unsigned long type) { return type; }
int open(const char *path, int flags, ...) { (void)path; return flags; }
int close(int file) { return file; }
long long lseek(int file, long long offset, int from) { return file + offset + from; }
void *mmap(void *at, size_t bytes, int a, int b, int c, long long d) { (void)bytes; return a + b + c + d ? at : 0; }
int munmap(void *at, size_t bytes) { (void)at; (void)bytes; return 0; }
long sysconf(int name) { return name; }
