// The interface of every probe to the rest of the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/lib/wire.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// A sample of a process, taken every few seconds. The page at / shows the past by these.
struct ProcessSample {
    ProcessKey key;
    std::uint64_t bytes = 0;
    std::uint64_t launches = 0;
};

// A bit for each reason.
using LostReasons = std::uint32_t;

[[nodiscard]] constexpr LostReasons lost_for(std::initializer_list<lost_reason> reasons) {
    LostReasons bits = 0;
    for (const lost_reason reason : reasons) {
        bits |= 1U << reason;
    }
    return bits;
}

// The page shows these counts of a probe from its start, and any other when it is not 0.
// tests/own_counts_test.py compares them with the code that counts.
struct OwnCounts {
    bool entries = false;    // and events, and skipped runs of programs
    bool in_flight = false;  // of entries whose events come later
    bool stale = false;
    bool nested = false;
    bool unmatched = false;
    bool forgotten = false;
    bool deaths = false;  // of programs inside of its calls
    LostReasons lost = 0;
    std::span<const std::string_view> attach_failures{};  // reasons
};

// Of a probe that attaches to libraries.
inline constexpr std::array<std::string_view, 5> library_failures = {"open", "slow", "elf",
                                                                     "no_symbols", "attach"};
// Of a probe that attaches to functions of the kernel, and goes on if one fails.
inline constexpr std::array<std::string_view, 1> kernel_failures = {"attach"};

// gpusnoop_probe_state.
enum class ProbeState : std::uint8_t {
    up,
    unsupported,  // the kernel or the node lacks the thing that it looks at
    failed,       // by an error: a reason to act
    disabled,     // by the configuration
};

inline constexpr std::array<std::string_view, 4> probe_state_names = {"up", "unsupported", "failed",
                                                                      "disabled"};

[[nodiscard]] constexpr std::string_view to_string(ProbeState state) {
    return probe_state_names.at(static_cast<std::size_t>(state));
}

// Of a probe that is not up for this reason.
[[nodiscard]] inline ProbeState state_after(const Error &error) {
    return is_unsupported(error) ? ProbeState::unsupported : ProbeState::failed;
}

// A library or a program that a probe is attached to.
struct AttachedLibrary {
    FileId id;
    std::string name;   // valid UTF-8, and not long
    std::string build;  // its GNU build id; empty if it has none
    std::uint64_t functions = 0;
    std::uint64_t expensive = 0;  // of these: see ebpf::UprobeSet::expensive_functions()
};

// What was lost of calls that were counted.
struct LostDetails {
    std::map<std::string, std::uint64_t> slow;  // of slow calls, by reason
    std::uint64_t slow_not_logged = 0;
    std::uint64_t entries = 0;  // records of calls that began
};

// The state of a probe.
struct Health {
    std::string name;
    ProbeState state = ProbeState::failed;
    std::string detail;  // why it is not up, or how it is attached
    std::uint64_t attached_functions = 0;
    std::vector<AttachedLibrary> libraries;
    OwnCounts can_count{};
    std::map<std::string, std::uint64_t> attach_failures;  // by reason
    probe_account account{};
    std::uint64_t undecodable = 0;  // records
    std::uint64_t forgotten = 0;    // data of a process over the limit
    ebpf::Runs runs{};              // of its programs
    // Nothing for a probe that keeps no details of calls.
    std::optional<LostDetails> lost_details;

    [[nodiscard]] bool is_up() const { return state == ProbeState::up; }
};

struct Overview;

// When a probe is started.
enum class StartTurn : std::uint8_t {
    in_order,  // of all_probes(), one at a time
    beside,    // on another thread meanwhile, as its start() uses nothing of other probes
    last,      // when all others have started, as its start() reads them
};

// drain(), set_resting(), report(), folded(), api_pages(), add_to() and samples() are called from
// the aggregating thread, health() from any.
class Probe {
public:
    virtual ~Probe() = default;

    // Loads, and attaches everything that can be attached immediately. A failure leaves the probe
    // down; the exporter runs without it.
    virtual Result<> start() = 0;

    [[nodiscard]] virtual StartTurn start_turn() const { return StartTurn::in_order; }

    // The libraries it wants to attach to, if any.
    virtual discovery::Attacher *attacher() { return nullptr; }

    // Applies the settings that can change while the exporter runs. True: the attacher must be
    // offered all files again. On the thread of the attacher; never for a probe that is down.
    virtual bool reconfigure(const config::Config & /*config*/) { return false; }

    // What probes on functions cost is known now, for gpusnoop_overhead_seconds_total. For any
    // thread.
    virtual void set_costs(const ebpf::ProbeCosts & /*costs*/) {}

    // Reads all records in its rings.
    virtual void drain() = 0;

    // What says that it has something to drain, while the pipeline rests. After start().
    [[nodiscard]] virtual ebpf::Wakeups wakeups() const { return {}; }

    // The pipeline begins to rest, or goes on: no process uses a traced library, so threads of the
    // probe that look for something by themselves do so once a second at most.
    virtual void set_resting(bool /*is_resting*/) {}

    // Its families as of the last drain().
    virtual std::vector<series::FamilySnapshot> report() = 0;

    // Label sets folded so far, by family.
    [[nodiscard]] virtual std::map<std::string, std::uint64_t> folded() const = 0;

    // Its pages of the API of that name, as of the last drain() or later. Copies only the data of
    // these, to save time. Empty while the probe is down.
    [[nodiscard]] virtual std::vector<ApiPage> api_pages(std::string_view /*name*/) { return {}; }

    // Adds its numbers to the overview, as of the last drain(). Adds nothing while it is down.
    virtual void add_to(Overview & /*overview*/) const {}

    // Samples of the processes that hold the most memory, up to `most`; as cheap as a page's part.
    [[nodiscard]] virtual std::vector<ProcessSample> samples(std::size_t /*most*/) const {
        return {};
    }

    [[nodiscard]] virtual Health health() const = 0;

    // The exporter will end, and another takes over at once: what it can use stays. For any thread.
    virtual void leave_to_successor() {}
};

}  // namespace gpusnoop::probes
