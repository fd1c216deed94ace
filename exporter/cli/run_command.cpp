#include "exporter/cli/run_command.h"

#include <sys/signalfd.h>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/system/machine.h"

namespace gpusnoop::cli {

int run_until_stopped(const Settings &settings,
                      const std::function<Result<>(const config::Config &, int stop_fd)> &command) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    log::setup(config->log.level, config->log.format);
    ebpf::route_libbpf_messages();
    const sigset_t stop_signals = block_signals({SIGINT, SIGTERM});
    const Fd stop(::signalfd(-1, &stop_signals, SFD_CLOEXEC));
    const auto done = command(*config, stop.get());
    if (!done) {
        log::error(done.error().message + limit_hint(done.error().code));
        return 1;
    }
    return 0;
}

}  // namespace gpusnoop::cli
