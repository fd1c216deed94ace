// What the page at / loads, for tests of what browsers make of it.
#pragma once

#include <set>
#include <string>

#include "exporter/status/assets.h"

namespace e2e {

// Of the page at this address.
inline std::set<std::string> assets_at(const std::string &url) {
    using namespace gpusnoop::status;
    return {url + address_of(stylesheet()).substr(2), url + address_of(script()).substr(2)};
}

}  // namespace e2e
