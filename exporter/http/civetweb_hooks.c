#include "exporter/http/civetweb_hooks.h"

#include <string.h>
#include <strings.h>

char *gpusnoop_origin_form(char *target) {
    size_t scheme = 0;
    if (strncasecmp(target, "http://", 7) == 0) {
        scheme = 7;
    } else if (strncasecmp(target, "https://", 8) == 0) {
        scheme = 8;
    }
    if (scheme == 0) {
        return target;
    }
    const size_t host = strcspn(target + scheme, "/?#");
    if (host == 0) {
        return target + 4;  // civetweb answers this with an error, but the whole with nothing
    }
    char *path = target + scheme + host;
    if (*path == '/') {
        return path;
    }
    // The target has no path; this overwrites the host's last character with one.
    path[-1] = '/';
    return path - 1;
}

int gpusnoop_refusal_status(int status, const char *received, size_t size, size_t buffer_size) {
    if (size < buffer_size || status != 400) {
        return status;
    }
    return memchr(received, '\n', size) == NULL ? 414 : 431;
}
