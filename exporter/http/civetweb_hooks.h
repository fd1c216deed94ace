// Functions that cmake/civetweb.patch has civetweb call, which has no callbacks for them.
//
// civetweb gives each connection a thread, from the first byte to the last. The exporter keeps the
// connections itself (connections.h), and a civetweb thread gets one when its whole request has
// come: it parses the request and calls the server. It never sees a socket.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The path and query of an absolute target, as proxies and some clients send it
// ("http://node:19435/metrics"), in its own memory; other targets unchanged. civetweb accepts an
// absolute target only if it names a port that civetweb listens on, but the client chooses that
// port.
char *gpusnoop_origin_form(char *target);

// Called by a civetweb worker with the target of its request, as it came: see target_host().
void gpusnoop_note_target(void *worker, const char *target);

// The status for a request that civetweb refuses with `status`: 414 or 431 if its first line or its
// head has filled the buffer.
int gpusnoop_refusal_status(int status, const char *received, size_t size, size_t buffer_size);

// Called by civetweb's master thread instead of accept(): returns when the server stops. `server`
// is its user data.
void gpusnoop_serve_connections(void *server);

// Called by a civetweb worker; `worker` is its thread's pointer: waits for a request. 0 when the
// server stops.
int gpusnoop_next_request(void *worker);

// Copies the rest of the worker's request, `size` bytes at most. -2 (civetweb's read error) if
// nothing is left.
int gpusnoop_read_request(void *worker, char *buffer, int size);

// Defined in civetweb's source: the length of a request's head, 0 if its end is not there yet, -1
// if it has a forbidden byte.
int gpusnoop_head_length(const char *text, int size);

#ifdef __cplusplus
}
#endif
