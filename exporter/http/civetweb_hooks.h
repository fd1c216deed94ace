// What CMakeLists.txt puts into civetweb's source, which has no callbacks for these.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The path and query of an absolute target, as proxies and some clients send it
// ("http://node:19435/metrics"), in its own memory; other targets as they are. civetweb takes
// absolute ones only where they name a port that it listens on, which is the client's word alone.
char *gpusnoop_origin_form(char *target);

// The status for a request that civetweb refuses with `status`: 414 and 431 where its first line or
// its head has filled the buffer.
int gpusnoop_refusal_status(int status, const char *received, size_t size, size_t buffer_size);

#ifdef __cplusplus
}
#endif
