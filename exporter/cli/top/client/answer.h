// A server's response.
#pragma once

#include <string>

namespace gpusnoop::top {

struct Answer {
    int status = 0;
    std::string body;
};

}  // namespace gpusnoop::top
