// `gpusnoop_exporter why`: where the time of launching threads goes, from a running exporter, in
// sentences.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"

namespace gpusnoop::why {

struct Options {
    top::Address address{.host = "127.0.0.1", .port = 19'435, .path = {}};
    top::Access access = {};
    std::chrono::milliseconds duration = std::chrono::seconds(10);
    std::optional<std::uint32_t> pid;
    std::string comm = "*";  // a glob, of names and scripts
    bool json = false;
    bool oom = false;  // instead, who held the memory when programs ran out of it
};

// Asks the exporter twice, so long apart (with `oom`, once), and writes to stdout. Errors are
// sentences.
Result<> run(const Options &options);

}  // namespace gpusnoop::why
