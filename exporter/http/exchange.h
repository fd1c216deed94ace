// A request until its response is sent.
#pragma once

#include <memory>
#include <string>

#include "exporter/http/access.h"
#include "exporter/http/connection.h"
#include "exporter/http/route.h"

namespace gpusnoop::http {

struct Exchange {
    std::unique_ptr<Connection> connection{};
    Request request{};
    std::string authorization{};  // that header, empty if there is none
    std::shared_ptr<const AccessRules> rules{};
};

}  // namespace gpusnoop::http
