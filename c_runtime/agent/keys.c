#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

#define SIGNS 19u
#define GROUP 5u

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

bool ag_random(uint8_t *out, size_t n)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    while (n != 0) {
        ssize_t got = read(fd, out, n);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            break;
        }
        if (got > 0) {
            out += got;
            n -= (size_t)got;
        }
    }
    close(fd);
    return n == 0;
}

/* The sign that follows the others, and tells typing errors. */
static char check_of(const char *signs)
{
    uint8_t digest[AG_SHA256_BYTES];
    ag_sha256_t hash;
    ag_sha256_init(&hash);
    ag_sha256_update(&hash, signs, SIGNS);
    ag_sha256_final(&hash, digest);
    return alphabet[digest[0] >> 3];
}

void ag_derive(const ag_key_t *key, const char *purpose, const uint8_t *transcript, size_t n, uint8_t *out)
{
    ag_hmac_t mac;
    uint8_t length = (uint8_t)strlen(purpose);
    ag_hmac_init(&mac, key->secret, sizeof key->secret);
    ag_hmac_update(&mac, &length, 1);
    ag_hmac_update(&mac, purpose, length);
    ag_hmac_update(&mac, transcript, n);
    ag_hmac_final(&mac, out);
}

bool ag_key_of_code(ag_key_t *key, const char *code)
{
    static const char name[] = "crosslevel agent key 1";
    char signs[SIGNS + 2u];
    size_t n = 0;
    for (; *code != '\0'; ++code) {
        char c = *code >= 'a' && *code <= 'z' ? (char)(*code - 'a' + 'A') : *code;
        if (strchr("- \t\r\n", c) != NULL) {
            continue;
        }
        c = c == 'O' ? '0' : c == 'I' || c == 'L' ? '1' : c; /* mistaken for others */
        if (n > SIGNS || strchr(alphabet, c) == NULL) {
            return false;
        }
        signs[n++] = c;
    }
    if (n != SIGNS + 1u || signs[SIGNS] != check_of(signs)) {
        return false;
    }
    ag_hmac_t mac;
    uint8_t id[AG_SHA256_BYTES];
    ag_hmac_init(&mac, name, sizeof name - 1u);
    ag_hmac_update(&mac, signs, n);
    ag_hmac_final(&mac, key->secret);
    ag_derive(key, "id", NULL, 0, id);
    memcpy(key->id, id, sizeof key->id);
    return true;
}

bool ag_new_code(char code[24])
{
    uint8_t random[SIGNS];
    char signs[SIGNS + 1u];
    if (!ag_random(random, sizeof random)) {
        return false;
    }
    for (unsigned i = 0; i < SIGNS; ++i) {
        signs[i] = alphabet[random[i] & 31u];
    }
    signs[SIGNS] = check_of(signs);
    for (unsigned i = 0, at = 0; i <= SIGNS; ++i) {
        if (i != 0 && i % GROUP == 0) {
            code[at++] = '-';
        }
        code[at++] = signs[i];
    }
    code[23] = '\0';
    return true;
}
