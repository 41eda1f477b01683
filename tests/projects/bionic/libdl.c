/* What stands for Android's libdl.so. */
void *dlopen(const char *path, int how) { return how == 0 ? 0 : (void *)path; }
void *dlsym(void *library, const char *name) { (void)name; return library; }
int dlclose(void *library) { return library == 0; }
