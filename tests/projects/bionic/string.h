/* Of Android's string.h, what the C of apps calls. */
#include <stddef.h>
int memcmp(const void *, const void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
size_t strlen(const char *);
int strncmp(const char *, const char *, size_t);
char *strstr(const char *, const char *);
