#include "trace/mangled.h"

#include <string.h>

struct writer {
    char *text;
    size_t size, length;
};

static void put(struct writer *writer, const char *bytes, size_t length) {
    if (writer->length + length >= writer->size) return; /* only what is behind is lost */
    memcpy(writer->text + writer->length, bytes, length);
    writer->length += length;
    writer->text[writer->length] = '\0';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* <source-name>: its length in decimal, then itself. Returns it and moves *at behind it; NULL: there is none. */
static const char *source_name(const char **at, size_t *length) {
    size_t count = 0;
    const char *name = *at;
    for (; is_digit(*name) && count < 100000; name++) count = 10 * count + (size_t)(*name - '0');
    if (name == *at || !count || strnlen(name, count) < count) return NULL;
    *at = name + count;
    *length = count;
    return name;
}

/* "Li4E", "Lb1E": the value of a template argument. Returns what is behind it; NULL: it is none. */
static const char *behind_literal(const char *at) {
    if (at[0] != 'L' || at[1] < 'a' || at[1] > 'z') return NULL;
    at += 2 + (at[2] == 'n');
    while (is_digit(*at)) at++;
    return *at == 'E' ? at + 1 : NULL;
}

/* Whatever has a name among the template arguments and, as nobody looks where they end, the parameters. */
static void put_arguments(struct writer *writer, const char *at) {
    const char *separator = "<";
    while (*at) {
        size_t length;
        const char *behind = behind_literal(at), *name = behind ? NULL : source_name(&at, &length);
        if (name) {
            put(writer, separator, strlen(separator));
            put(writer, name, length);
            separator = ",";
        } else {
            at = behind ? behind : at + 1;
        }
    }
    put(writer, separator[0] == '<' ? "<>" : ">", separator[0] == '<' ? 2 : 1);
}

bool aorta_mangled_names(const char *name, char *text, size_t size) {
    struct writer writer = {.text = text, .size = size};
    if (strncmp(name, "_Z", 2) != 0 || !size) return false;
    const char *at = name + 2, *part;
    bool nested = *at == 'N', any = false;
    at += nested;
    while (nested && *at && strchr("KVrRO", *at)) at++;
    if (strncmp(at, "St", 2) == 0) at += 2; /* std:: */
    at += *at == 'L';                       /* static */
    put(&writer, "void ", 5);
    for (size_t length; (nested || !any) && (part = source_name(&at, &length)); any = true) {
        if (any) put(&writer, "::", 2);
        put(&writer, part, length);
    }
    if (!any) return false;
    if (*at == 'I') put_arguments(&writer, at + 1);
    put(&writer, "(", 1);
    return true;
}
