// A request whose response takes long: no thread waits for it.
#pragma once

#include <functional>

#include "exporter/http/route.h"

namespace gpusnoop::http {

// Owns the client's connection. Without a response, the client is disconnected.
struct Pending {
    // The client's socket, for poll(): POLLRDHUP says that the client has gone away. Open as long
    // as `answer` exists.
    int client = -1;
    // Sends the response, once. For any thread, as long as the server exists.
    std::function<void(Response)> answer;
};

}  // namespace gpusnoop::http
