/* Whether a text has the name of a special token. */
#include "tok_parts.h"

static bool has_name(const sdk_tok_t *tok, int part, const char *text, size_t n)
{
    const tok_added_t *added = (const tok_added_t *)(const void *)tok->part[part].data;
    for (uint32_t k = 0; k < tok->part[part].bytes / (uint32_t)sizeof *added; ++k) {
        const uint8_t *name = tok->part[SDK_TOK_STRINGS].data + added[k].at;
        for (size_t i = 0; (added[k].flags & TOK_ADDED_SPECIAL) && i + added[k].bytes <= n; ++i) {
            if (memcmp(text + i, name, added[k].bytes) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool sdk_tok_names(const sdk_tok_t *tok, const char *text, size_t n)
{
    return has_name(tok, SDK_TOK_ADDED, text, n) || has_name(tok, SDK_TOK_ADDED_NORMAL, text, n);
}
