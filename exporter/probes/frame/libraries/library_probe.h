// What the probes on functions of libraries have in common: how they start, what attaches them, and
// what they say of themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// `Programs` has set_costs(), object(), account_map() and runs(), `Consumer` has drain() and
// ring_fds(), and `Attacher` is a discovery::Attacher.
template <typename Programs, typename Consumer, typename Attacher>
class LibraryProbe : public Probe {
public:
    Result<> start() final {
        const auto opened = open();
        attached_.started(opened);
        return opened;
    }
    discovery::Attacher *attacher() final { return attacher_ ? &*attacher_ : nullptr; }
    void set_costs(const ebpf::ProbeCosts &costs) final {
        if (programs_) {
            programs_->set_costs(costs);
        }
    }
    void drain() final {
        if (consumer_) {
            before_drain();
            consumer_->drain();
            after_drain();
            const Uncounted uncounted = count_uncounted();
            undecodable_ = uncounted.undecodable;
            forgotten_ = uncounted.forgotten;
        }
    }
    [[nodiscard]] ebpf::Wakeups wakeups() const final {
        return consumer_ ? ebpf::wakeups_of(programs_->object(), consumer_->ring_fds())
                         : ebpf::Wakeups();
    }
    [[nodiscard]] Health health() const final {
        Health health = attached_.health();
        health.undecodable = undecodable_;
        health.forgotten = forgotten_;
        if (programs_) {
            add_counts(health, programs_->account_map(), programs_->runs());
            add_own_counts(health);
        }
        return health;
    }

protected:
    // What its aggregator did not count.
    struct Uncounted {
        std::uint64_t undecodable = 0;
        std::uint64_t forgotten = 0;
    };

    // `idle` is the detail while it is attached to nothing.
    LibraryProbe(std::string name, std::string idle)
        : attached_(std::move(name), std::move(idle)) {}

    // Sets the three below, or fails.
    virtual Result<> open() = 0;
    // To be called by the destructor: they use what the derived class has.
    void close() {
        attacher_.reset();
        consumer_.reset();
        programs_.reset();
    }
    [[nodiscard]] virtual Uncounted count_uncounted() const = 0;
    // While it is up.
    virtual void before_drain() {}
    virtual void after_drain() {}
    virtual void add_own_counts(Health & /*health*/) const {}

    AttachedLibraries attached_;
    // While the probe is up; each uses those above it.
    std::unique_ptr<Programs> programs_;
    std::unique_ptr<Consumer> consumer_;
    std::optional<Attacher> attacher_;

private:
    // As of the last drain(), for any thread.
    std::atomic<std::uint64_t> undecodable_ = 0;
    std::atomic<std::uint64_t> forgotten_ = 0;
};

// Puts the probes on the entries of functions where they cost the least.
// Moves each of `points`, which are at the first instructions of `functions`, to the instruction
// that symbols::find_entry_probes() chooses, and notes which ones are expensive there. `fd` is the
// file that `elf` was opened with.
void use_cheapest_entries(const symbols::ElfFile &elf, int fd,
                          std::span<const symbols::FoundFunction> functions,
                          std::vector<ebpf::AttachPoint> &points);

// Warns of programs in a sandbox that handles their system calls instead of the kernel: since Linux
// 6.11, the return probe of x86_64 is a system call, which such a sandbox does not know.
// Used by the aggregating thread.
class SandboxWarnings {
public:
    // The number of program names that are remembered. Further ones are not logged.
    static constexpr std::size_t max_names = 100;

    explicit SandboxWarnings(std::string probe) : probe_(std::move(probe)) {}

    // Call this at a process's first traced call. The log has one line for each program name.
    void look(const ProcessIdentity &process);

private:
    std::string probe_;
    std::set<std::string> said_;  // logged names
};

}  // namespace gpusnoop::probes
