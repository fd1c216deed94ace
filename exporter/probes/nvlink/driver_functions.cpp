#include "exporter/probes/nvlink/driver_functions.h"

#include "exporter/base/log.h"
#include "exporter/ebpf/kallsyms.h"

namespace gpusnoop::probes {

void DriverFunctions::start(const ebpf::KprobePrograms &programs) {
    programs_ = programs;
    look();
    watcher_ = std::jthread([this](const std::stop_token &stop) { watch(stop); });
}

Result<> DriverFunctions::attach() {
    const auto modules = ebpf::loaded_modules();
    if (!modules) {
        return tl::unexpected(modules.error());
    }
    if (*modules == modules_) {
        return {};
    }
    auto found = ebpf::find_kernel_symbols(functions_);
    if (!found) {
        return tl::unexpected(found.error());
    }
    modules_ = *modules;
    if (*found == found_) {
        return {};
    }
    found_ = *std::move(found);
    probes_ = {};
    Result<> last;
    for (std::size_t place = 0; place < functions_.size(); place++) {
        const std::string name(functions_[place]);
        if (!found_.contains(name)) {
            continue;
        }
        if (const auto attached = probes_.attach(programs_, {name, place}); !attached) {
            last = attached;
        }
    }
    if (!last) {
        modules_ = "to look again";
        found_.clear();
    }
    return last;
}

void DriverFunctions::look() {
    const std::size_t before = state_.get().functions;
    if (const auto attached = attach(); !attached) {
        state_.down(attached.error());
        state_.failed(attached.error());
        return;
    }
    const std::size_t functions = probes_.functions();
    if (functions > 0) {
        state_.up(functions, "attached by kprobes");
    } else {
        state_.down(absent_);
    }
    if (functions != before) {
        log::info(functions > 0 ? "attached" : "detached: the driver was unloaded",
                  {{"probe", state_.probe()}, {"functions", functions}});
    }
}

void DriverFunctions::watch(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        wake_.wait_for(lock, stop, rescan_interval_, [] { return false; });
        if (!stop.stop_requested()) {
            look();
        }
    }
}

}  // namespace gpusnoop::probes
