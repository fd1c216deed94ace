// Calls that have begun and not returned, as the probes that follow calls know them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bpf/lib/open_call.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The most calls that never returned which a probe keeps between two takes.
inline constexpr std::size_t max_unreturned_calls = 1'000;

// An operation of NCCL, by the communicators that the process was seen to make.
struct NcclPlace {
    std::uint64_t communicator = 0;  // the process's first is 1
    std::string hash;                // the same on all nodes; empty: not known
    std::optional<std::uint32_t> rank{};
    std::optional<std::uint32_t> nranks{};
    // The communicator's first collective operation is 1. One that is in flight is the last.
    std::uint64_t sequence = 0;
};

// The names are its process's. Texts are valid UTF-8 and not long.
struct OpenCall : processes::ProcessNames {
    std::uint64_t began_ns = 0;  // on the kernel's monotonic clock
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::string thread;  // its name
    std::string pod_uid;
    // The file's name; else of which kind the library is, as the probe does not know its file.
    std::string library;
    bool is_file_known = true;
    std::string function;
    // By position, without addresses; of a named function, the configured ones.
    std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments;
    std::string gpu;  // as the label; empty: not known
    std::optional<NcclPlace> nccl;
    std::uint64_t sp = 0;          // where its return address lies
    std::uint64_t returns_to = 0;  // 0: not known
};

// What the record says for every probe: the thread, its process and the call's start. Without the
// function.
[[nodiscard]] OpenCall open_call_of(const ProcessIdentity &process, const open_call &record);

// The thread ended inside it.
struct UnreturnedCall : OpenCall {
    std::uint64_t ended_ns = 0;
    std::uint32_t signal = 0;  // that ended it; 0: the thread or its process exited
};

// Calls of a process that are counted and not listed.
struct MoreCalls : processes::ProcessNames {
    std::uint32_t pid = 0;
    std::string library;
    std::string function;
    std::uint64_t count = 0;
    std::uint64_t oldest_ns = 0;  // when the oldest began
};

struct OpenCalls {
    std::vector<OpenCall> calls;
    std::vector<blocked_thread_record> threads = {};  // of the calls, if asked for
    std::vector<MoreCalls> more = {};                 // over the limits of OpenCallList

    [[nodiscard]] std::uint64_t count() const;
};

// When the oldest call of each process began.
using OldestCalls = std::map<ProcessKey, std::chrono::nanoseconds>;

struct OpenCallQuery {
    std::chrono::nanoseconds min_age{};  // of the calls
    bool with_threads = false;
};

// The calls that are listed one by one, each with its names: so many of a process and of all, and
// a few of each process in any case. One process can have millions of calls, which would keep the
// others from being shown.
inline constexpr std::size_t max_listed_calls = 4'096;
inline constexpr std::size_t max_listed_calls_of_all = 65'536;
inline constexpr std::size_t always_listed_calls = 64;

// Makes a list of the records of one iteration. A call over the limits costs no more than finding
// its process and function among those of the earlier ones. (If two probes follow such a call, each
// counts it.)
class OpenCallList {
public:
    struct Describe {
        // Nothing: a call of this process and function is not shown.
        std::function<std::optional<OpenCall>(const open_call_record &)> call_of;
        std::function<bool(const open_call_record &)> is_shown = [](const auto &) { return true; };
    };
    explicit OpenCallList(Describe describe) : describe_(std::move(describe)) {}

    void add(const open_call_record &record);
    [[nodiscard]] OpenCalls take() { return std::move(open_); }

private:
    using Kind = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;  // process and function

    Describe describe_;
    OpenCalls open_;
    std::map<std::uint32_t, std::size_t> listed_;         // by process id
    std::map<Kind, std::optional<std::size_t>> counted_;  // in `more`; nothing: not shown
};

// What a probe that follows calls to their ends gives the probe of calls in flight.
// For the aggregating thread.
class CallFollower {
public:
    virtual ~CallFollower() = default;

    // The calls that are in flight now. Fails while the probe is down, and where the kernel cannot
    // list them.
    [[nodiscard]] virtual Result<OpenCalls> open_calls(const OpenCallQuery &query) = 0;
    // The calls that threads were inside of when they ended, since the last time.
    [[nodiscard]] virtual std::vector<UnreturnedCall> take_unreturned() = 0;
};

// With the names of their probes, which live as long as the one that reads them.
using CallFollowers = std::vector<std::pair<std::string_view, CallFollower *>>;
using CallFollowersPtr = std::shared_ptr<CallFollowers>;

// The block `in_flight:` of the configuration. The probes that follow calls read it, too.
struct InFlightConfig {
    bool enabled = true;
    std::chrono::milliseconds min_age = std::chrono::seconds(1);  // of the calls that are shown
    bool operator==(const InFlightConfig &) const = default;

    // Calls in flight for so long when their thread ends are reported; 0: none.
    [[nodiscard]] std::chrono::milliseconds unreturned_after() const {
        return enabled ? min_age : std::chrono::milliseconds(0);
    }
};

void read_in_flight(config::Section in_flight, config::Config &config);

}  // namespace gpusnoop::probes
