/* The command: what `sdk agent` takes, and --stdio for one connection over standard input and output. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "agent.h"

#define USAGE 2
#define DEFAULT_PORT "7747"

static volatile int stop;

static void on_signal(int number)
{
    stop = number;
}

typedef struct {
    const char *listen, *key, *folder, *via;
    uint64_t quota, memory, disk;
    bool pair, stdio;
} options_t;

static int complain(const char *what, const char *why, const char *hint)
{
    (void)fprintf(stderr, "error: %s\n  why: %s\n  hint: %s\n", what, why, hint);
    return USAGE;
}

/* A size such as 256M. */
static bool size_of(const char *text, uint64_t *value)
{
    static const char units[] = "KMGT";
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end == '\0' ? NULL : strchr(units, *end);
    unsigned shift = unit == NULL ? 0 : 10u * (unsigned)(unit - units + 1);
    if (errno != 0 || (*end != '\0' && (unit == NULL || end[1] != '\0')) || number > UINT64_MAX >> shift) {
        return false;
    }
    *value = (uint64_t)number << shift;
    return true;
}

static bool parse(options_t *o, int argc, char **argv)
{
    struct {
        const char *name, **text;
        uint64_t *size;
    } known[] = {{"--listen", &o->listen, NULL}, {"--key", &o->key, NULL},     {"--folder", &o->folder, NULL},
                 {"--via", &o->via, NULL},       {"--quota", NULL, &o->quota}, {"--memory", NULL, &o->memory},
                 {"--disk", NULL, &o->disk}};
    for (int i = 1; i < argc; ++i) {
        bool good = strcmp(argv[i], "--pair") == 0 || strcmp(argv[i], "--stdio") == 0;
        o->pair = o->pair || strcmp(argv[i], "--pair") == 0;
        o->stdio = o->stdio || strcmp(argv[i], "--stdio") == 0;
        for (unsigned k = 0; !good && i + 1 < argc && k < sizeof known / sizeof *known; ++k) {
            if (strcmp(argv[i], known[k].name) == 0) {
                good = known[k].size == NULL || size_of(argv[i + 1], known[k].size);
                if (known[k].text != NULL) {
                    *known[k].text = argv[i + 1];
                }
                ++i;
                break;
            }
        }
        if (!good) {
            return false;
        }
    }
    return o->folder != NULL;
}

/* ---- the key ---- */

/* The code in a file of this user alone: the first line, without what stands behind #. */
static int read_code(const char *path, char code[64])
{
    struct stat found;
    FILE *file = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return complain("there is no key for the agent", path, "--pair makes one and prints its code");
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & 077u) != 0 || (file = fdopen(fd, "r")) == NULL) {
        close(fd);
        return complain("the file of keys is not safe", path, "it must be yours, and readable by nobody else");
    }
    while (fgets(code, 64, file) != NULL && code[strspn(code, " \t\r\n")] == '#') {
    }
    code[strcspn(code, "#\r\n")] = '\0';
    fclose(file);
    return 0;
}

static int make_code(const char *path)
{
    char code[24];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == EEXIST ? 0 : complain("cannot write the key", strerror(errno), "--key FILE names another place");
    }
    bool good = ag_new_code(code) && write(fd, code, 23) == 23 && write(fd, "\n", 1) == 1;
    close(fd);
    return good ? 0 : complain("cannot write the key", strerror(errno), "--key FILE names another place");
}

static int key_of(ag_server_t *server, const options_t *o, char code[64])
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", o->key != NULL ? o->key : o->folder);
    if (o->key == NULL) {
        size_t n = strlen(path);
        (void)snprintf(path + n, sizeof path - n, "/agent.key");
    }
    int failed = o->pair ? make_code(path) : 0;
    failed = failed != 0 ? failed : read_code(path, code);
    if (failed == 0 && !ag_key_of_code(&server->key, code)) {
        failed = complain("that is no code of an agent", path, "delete the file and pair again");
    }
    server->keyed = failed == 0;
    return failed;
}

/* ---- the address ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* HOST, HOST:PORT or [HOST]:PORT, resolved. */
static struct addrinfo *resolve(const char *text)
{
    char host[256], *end = NULL;
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    if (strlen(text) >= sizeof host) {
        return NULL;
    }
    (void)snprintf(host, sizeof host, "%s", text);
    char *name = host, *port = NULL;
    if (*name == '[') {
        end = strchr(++name, ']');
        port = end != NULL && end[1] == ':' ? end + 1 : NULL;
    } else if (strchr(name, ':') == strrchr(name, ':')) {
        end = port = strchr(name, ':');
    }
    if (end != NULL) {
        *end = '\0';
    }
    if (port != NULL && (strspn(port + 1, "0123456789") != strlen(port + 1) || strlen(port) > 6 || atol(port + 1) > 65535)) {
        return NULL;
    }
    return *name != '\0' && getaddrinfo(name, port != NULL ? port + 1 : DEFAULT_PORT, &want, &found) == 0 ? found : NULL;
}

static int listen_at(ag_server_t *server, const char *text)
{
    struct addrinfo *address = resolve(text);
    int on = 1;
    if (address == NULL) {
        return complain("that is no address", text, "--listen 0.0.0.0:7747");
    }
    if (!server->keyed && !is_loopback(address->ai_addr)) {
        freeaddrinfo(address);
        return complain("an agent at that address needs a key", "whoever reaches it can run programs as you",
                        "--pair makes a key and prints a code for the other machine");
    }
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 128) == 0;
    freeaddrinfo(address);
    if (!good) {
        return complain("cannot listen there", strerror(errno), "--listen HOST:PORT names another address");
    }
    server->listener = fd;
    return 0;
}

static void say_address(const ag_server_t *server, const char *code)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    char host[64] = "", port[16] = "";
    (void)getsockname(server->listener, (struct sockaddr *)&address, &n);
    (void)getnameinfo((struct sockaddr *)&address, n, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = strchr(host, ':') != NULL;
    (void)printf("listening at tcp://%s%s%s:%s; Ctrl-C ends it\n", six ? "[" : "", host, six ? "]" : "", port);
    if (code != NULL) {
        (void)printf("code: %s\non the other machine: sdk agent --trust %s\n", code, code);
    }
    (void)fflush(stdout);
}

/* Where a program is that is named as in a shell; NULL where there is none. */
static const char *found_program(const char *name)
{
    static char path[4096];
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0 ? realpath(name, path) : NULL;
    }
    while (folders != NULL && *folders != '\0') {
        int n = (int)strcspn(folders, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", n < 2048 ? n : 2048, folders, name);
        if (access(path, X_OK) == 0) {
            return path;
        }
        folders += folders[n] == ':' ? n + 1 : n;
    }
    return NULL;
}

static int prepare(ag_server_t *server, const options_t *o, char code[64])
{
    static char root[4096];
    ag_refusal_t refusal;
    server->store.root = o->folder;
    server->store.quota = o->quota;
    if (!ag_store_open(&server->store, &refusal)) {
        return complain("the agent's folder cannot be used", refusal.text, "--folder DIR names another");
    }
    if (realpath(o->folder, root) == NULL || strlen(root) > 3800) {
        return complain("the agent's folder cannot be used", strerror(errno), "--folder DIR names another");
    }
    server->store.root = root;
    char lock[4096];
    (void)snprintf(lock, sizeof lock, "%.3900s/holder", root);
    server->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (o->via != NULL && (server->via = found_program(o->via)) == NULL) {
        return complain("there is no such program", o->via, "--via PROGRAM runs programs under another");
    }
    if (o->stdio) {
        return 0;
    }
    const char *address = o->listen != NULL ? o->listen : "127.0.0.1";
    int failed = o->pair || o->key != NULL ? key_of(server, o, code) : 0;
    return failed != 0 ? failed : listen_at(server, address);
}

int main(int argc, char **argv)
{
    static ag_server_t server;
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    options_t o = {.quota = 2ull << 30, .disk = 256ull << 20};
    char code[64] = "";
    if (!parse(&o, argc, argv)) {
        return complain("that is no command of the agent",
                        "agent --folder DIR [--listen HOST:PORT] [--pair] [--key FILE] [--quota SIZE] [--memory SIZE] "
                        "[--disk SIZE] [--via PROGRAM], or agent --folder DIR --stdio",
                        "docs/devices.md says what each is");
    }
    (void)umask(077);
    server.listener = server.lock = -1;
    server.stop = &stop;
    server.stdio = o.stdio;
    server.memory = o.memory;
    server.disk = o.disk;
    int failed = prepare(&server, &o, code);
    if (failed != 0) {
        return failed;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; ++i) {
        struct sigaction action = {.sa_handler = on_signal};
        (void)sigaction(ends[i], &action, NULL);
    }
    if (o.stdio) {
        (void)fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
        (void)fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    } else {
        say_address(&server, o.pair ? code : NULL);
    }
    return ag_serve(&server);
}
