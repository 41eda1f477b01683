/* What the system tells of the machine; nothing is made up where it does not. */
#define _GNU_SOURCE
#include <ctype.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent.h"

#define MAX_ZONES 64u
#define MAX_CORES 1024u
#define NAME_SIGNS 64
#define PATH_BYTES 512
#ifndef SYS /* tests have a tree of their own */
#define SYS "/sys"
#endif

typedef struct {
    char *at;
    size_t left;
} text_t;

static void add(text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text_t *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t done = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left - 1u;
    text->at += done;
    text->left -= done;
}

/* A text in quotes: of other signs than ASCII's a question mark stays. */
static void add_string(text_t *text, const char *value)
{
    char out[4 * NAME_SIGNS + 1], *at = out;
    for (int i = 0; i < NAME_SIGNS && value[i] != '\0'; ++i) {
        bool plain = value[i] >= 0x20 && value[i] < 0x7f;
        if (value[i] == '"' || value[i] == '\\') {
            *at++ = '\\';
        }
        *at++ = plain ? value[i] : '?';
    }
    *at = '\0';
    add(text, "\"%s\"", out);
}

/* The first bytes of a file, without what ends its first line; false where there are none. */
static bool line_of(const char *path, char *out, int room)
{
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(out, room, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (good) {
        out[strcspn(out, "\n")] = '\0';
    }
    return good && out[0] != '\0';
}

static bool number_of(const char *path, double *value)
{
    char line[64], *end;
    if (!line_of(path, line, sizeof line)) {
        return false;
    }
    *value = (double)strtol(line, &end, 10);
    return end != line;
}

/* The value of "key : value" in a file; false where there is none. */
static bool field_of(const char *path, const char *key, char *out, size_t room)
{
    char line[512];
    bool found = false;
    size_t n = strlen(key);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, n) == 0 && colon != NULL && strspn(line + n, " \t") == (size_t)(colon - line) - n) {
            colon += 1u + strspn(colon + 1, " \t");
            colon[strcspn(colon, "\n")] = '\0';
            (void)snprintf(out, room, "%s", colon);
            found = out[0] != '\0';
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static bool kilobytes(const char *key, uint64_t *bytes)
{
    char value[64];
    if (!field_of("/proc/meminfo", key, value, sizeof value)) {
        return false;
    }
    *bytes = strtoull(value, NULL, 10) * 1024u;
    return true;
}

uint64_t ag_free_bytes(void)
{
    uint64_t bytes = 0;
    return kilobytes("MemAvailable", &bytes) ? bytes : 0;
}

const char *ag_machine(void)
{
    static struct utsname name;
    if (name.machine[0] == '\0' && uname(&name) != 0) {
        return "";
    }
    if (strncmp(name.machine, "armv", 4) == 0 && strcmp(name.machine, "armv8b") != 0) {
        return "arm";
    }
    return strcmp(name.machine, "amd64") == 0 ? "x86_64" : strcmp(name.machine, "arm64") == 0 ? "aarch64" : name.machine;
}

const char *ag_foreign(const uint8_t *head, size_t n, char *buffer, size_t room)
{
    static const struct {
        unsigned number;
        const char *name, *runs_on; /* another machine whose programs of 32 bits these are */
    } machines[] = {{3, "i686", "x86_64"}, {40, "arm", "aarch64"}, {62, "x86_64", ""}, {183, "aarch64", ""},
                    {243, "riscv64", ""}};
    if (n >= 2 && head[0] == '#' && head[1] == '!') {
        return NULL;
    }
    if (n < 20 || memcmp(head, "\x7f" "ELF", 4) != 0 || (head[5] != 1 && head[5] != 2)) {
        return "no machine that is known";
    }
    unsigned number = head[5] == 1 ? head[18] | (unsigned)head[19] << 8 : head[19] | (unsigned)head[18] << 8;
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; ++i) {
        if (machines[i].number == number) {
            bool fits = strcmp(machines[i].name, ag_machine()) == 0 || strcmp(machines[i].runs_on, ag_machine()) == 0;
            return fits ? NULL : machines[i].name;
        }
    }
    (void)snprintf(buffer, room, "machine %u", number);
    return buffer;
}

static void add_megahertz(text_t *text, const char *key, unsigned core, const char *file)
{
    char path[PATH_BYTES];
    double value;
    (void)snprintf(path, sizeof path, SYS "/devices/system/cpu/cpu%u/cpufreq/%s", core, file);
    if (number_of(path, &value)) {
        add(text, ",\"%s\":%.3f", key, value / 1000.0);
    }
}

static void add_cores(text_t *text)
{
    cpu_set_t set;
    const char *comma = "";
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return;
    }
    for (unsigned core = 0; core < CPU_SETSIZE && core < MAX_CORES; ++core) {
        if (CPU_ISSET(core, &set)) {
            char path[PATH_BYTES], governor[NAME_SIGNS + 1];
            add(text, "%s{\"number\":%u", comma, core);
            add_megahertz(text, "mhz", core, "scaling_cur_freq");
            add_megahertz(text, "max_mhz", core, "cpuinfo_max_freq");
            add_megahertz(text, "cap_mhz", core, "scaling_max_freq");
            (void)snprintf(path, sizeof path, SYS "/devices/system/cpu/cpu%u/cpufreq/scaling_governor", core);
            if (line_of(path, governor, sizeof governor)) {
                add(text, ",\"governor\":");
                add_string(text, governor);
            }
            add(text, "}");
            comma = ",";
        }
    }
}

/* Zones of one kind have their numbers beside it, all but the first. */
static void add_temperatures(text_t *text)
{
    static char seen[MAX_ZONES][NAME_SIGNS + 1];
    unsigned kinds = 0;
    const char *comma = "";
    for (unsigned zone = 0; zone < MAX_ZONES; ++zone) {
        char path[PATH_BYTES], kind[NAME_SIGNS - 10], name[NAME_SIGNS + 1];
        double value;
        (void)snprintf(path, sizeof path, SYS "/class/thermal/thermal_zone%u/temp", zone);
        if (!number_of(path, &value)) {
            continue;
        }
        (void)snprintf(path, sizeof path, SYS "/class/thermal/thermal_zone%u/type", zone);
        if (!line_of(path, kind, sizeof kind)) {
            (void)snprintf(kind, sizeof kind, "thermal_zone%u", zone);
        }
        bool again = false;
        for (unsigned i = 0; i < kinds; ++i) {
            again = again || strcmp(seen[i], kind) == 0;
        }
        (void)snprintf(seen[kinds++], sizeof *seen, "%s", kind);
        (void)snprintf(name, sizeof name, again ? "%s %u" : "%s", kind, zone);
        add(text, "%s", comma);
        add_string(text, name);
        add(text, ":%.3f", value / 1000.0);
        comma = ",";
    }
}

static void add_cpu(text_t *text)
{
    static const char *const keys[] = {"model name", "Model", "Hardware", "uarch"};
    char name[256];
    bool found = line_of("/proc/device-tree/model", name, sizeof name);
    for (unsigned i = 0; !found && i < sizeof keys / sizeof *keys; ++i) {
        found = field_of("/proc/cpuinfo", keys[i], name, sizeof name);
    }
    if (found) {
        add(text, ",\"cpu\":");
        add_string(text, name);
    }
}

size_t ag_facts(char *out, size_t room, const char *used_by)
{
    text_t text = {out, room};
    struct utsname name;
    char system[sizeof name.sysname + sizeof name.release + 1], line[64];
    uint64_t bytes;
    double load;
    memset(&name, 0, sizeof name);
    (void)uname(&name);
    (void)snprintf(system, sizeof system, "%s %s", name.sysname, name.release);
    add(&text, "{\"name\":");
    add_string(&text, name.nodename);
    add(&text, ",\"system\":");
    add_string(&text, system);
    add(&text, ",\"machine\":");
    add_string(&text, ag_machine());
    add_cpu(&text);
    add(&text, ",\"cores\":[");
    add_cores(&text);
    add(&text, "],\"temperatures_c\":{");
    add_temperatures(&text);
    add(&text, "}");
    if (kilobytes("MemTotal", &bytes)) {
        add(&text, ",\"memory_bytes\":%llu", (unsigned long long)bytes);
    }
    if (kilobytes("MemAvailable", &bytes)) {
        add(&text, ",\"free_bytes\":%llu", (unsigned long long)bytes);
    }
    if (line_of("/proc/loadavg", line, sizeof line) && sscanf(line, "%lf", &load) == 1) {
        add(&text, ",\"load\":%.2f", load);
    }
    if (used_by != NULL) {
        add(&text, ",\"used_by\":");
        add_string(&text, used_by);
    }
    add(&text, "}");
    return (size_t)(text.at - out);
}
