#include "exporter/app_reloads.h"

#include <chrono>
#include <sstream>
#include <string>

#include "exporter/base/log.h"
#include "exporter/system/machine.h"

namespace gpusnoop {

Result<> Reloads::read_and_apply() {
    use_.begin();
    const auto config = use_.read();
    const Result<> read = config ? Result<>() : tl::unexpected(config.error());
    if (config) {
        use_.apply(*config);
    }
    note(read);
    if (config) {
        log::info("configuration reloaded");
    } else {
        std::istringstream lines(config.error().message);
        for (std::string line; std::getline(lines, line);) {
            log::error("failed to reload config", {{"reason", line}});
        }
    }
    use_.end(read);
    return read;
}

void Reloads::note(const Result<> &read) {
    const std::lock_guard lock(mutex_);
    last_.successful = read.has_value();
    last_.problem = read ? "" : read.error().message;
    last_.at = now_on(CLOCK_REALTIME);
    if (read) {
        last_.last_success = std::chrono::duration<double>(last_.at).count();
    }
}

}  // namespace gpusnoop
