#include "exporter/ebpf/attach/grace_period.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/nothing.h"

namespace gpusnoop::ebpf {

namespace {

constexpr const char *name = "gpusnoop_grace_period";

// A kernel may allow only files that cannot be executed (vm.memfd_noexec); Linux < 6.3 does not
// know the flag.
Fd make_file() {
    constexpr unsigned noexec_seal = 8;  // MFD_NOEXEC_SEAL, which old headers lack
    Fd file(::memfd_create(name, MFD_CLOEXEC | noexec_seal));
    if (!file) {
        file = Fd(::memfd_create(name, MFD_CLOEXEC));
    }
    if (file && ::ftruncate(file.get(), ::sysconf(_SC_PAGESIZE)) != 0) {
        file.reset();
    }
    return file;
}

}  // namespace

std::unique_ptr<GracePeriod> GracePeriod::open() {
    auto program = load_nothing(BPF_PROG_TYPE_KPROBE, uprobe_multi_type);
    Fd file = make_file();
    if (!program || !file) {
        return nullptr;
    }
    return std::unique_ptr<GracePeriod>(new GracePeriod(*std::move(program), std::move(file)));
}

GracePeriod::GracePeriod(Fd program, Fd file)
    : program_(std::move(program)),
      file_(std::move(file)),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

GracePeriod::~GracePeriod() = default;

void GracePeriod::begin() {
    const std::lock_guard lock(mutex_);
    is_wanted_ = true;
    wanted_changed_.notify_one();
}

// Nobody maps the file, so no breakpoint is set anywhere.
void GracePeriod::run(const std::stop_token &stop) {
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (!wanted_changed_.wait(lock, stop, [this] { return is_wanted_; })) {
                return;
            }
            is_wanted_ = false;
        }
        if (!link_nothing(program_.get(), uprobe_multi_type, file_.get(), 0)) {
            return;  // not allowed, now or later
        }
    }
}

}  // namespace gpusnoop::ebpf
