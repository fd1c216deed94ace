// Who a client is, as far as its connection says.
#pragma once

#include "exporter/config/web_config.h"

namespace gpusnoop::http {

// Whether the socket's other end is on this machine: a Unix socket, or the loopback.
[[nodiscard]] bool is_local_peer(int socket);

// Whether every client has shown who it is, by a login or a verified certificate, before its
// request is answered (but for routes that are open).
[[nodiscard]] bool demands_identity(const config::WebConfig &config);

}  // namespace gpusnoop::http
