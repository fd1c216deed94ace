#include "exporter/probes/frame/bpf/attach_state.h"

#include "exporter/base/log.h"

namespace gpusnoop::probes {

void AttachState::up(std::size_t functions, std::string detail) {
    const std::lock_guard lock(mutex_);
    attachment_ = {functions, ProbeState::up, std::move(detail)};
}

void AttachState::down(const Error &error) {
    const std::lock_guard lock(mutex_);
    attachment_ = {0, state_after(error), error.message};
}

void AttachState::failed(const Error &error) {
    {
        const std::lock_guard lock(mutex_);
        failures_++;
    }
    log::warn("cannot attach", {{"probe", probe_}, {"reason", error.message}});
}

Attachment AttachState::get() const {
    const std::lock_guard lock(mutex_);
    return attachment_;
}

Health AttachState::health() const {
    const std::lock_guard lock(mutex_);
    Health health;
    health.name = probe_;
    health.state = attachment_.state;
    health.detail = attachment_.detail;
    health.attached_functions = attachment_.functions;
    if (failures_ > 0) {
        health.attach_failures["attach"] = failures_;
    }
    return health;
}

}  // namespace gpusnoop::probes
