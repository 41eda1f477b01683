/* Of Android's dlfcn.h, what the runtime of GPUs calls. */
#define RTLD_NOW 2
#define RTLD_LOCAL 0
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
int dlclose(void *);
