// Reads the open calls of a probe's threads, by the iterators of bpf/in_flight/.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "bpf/lib/open_call.h"
#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/calls/open_calls.h"

struct bpf_object;

namespace gpusnoop::probes {

// For one thread. Each read visits all threads of the machine.
class OpenCallReader {
public:
    // `S` is the skeleton of an object of bpf/in_flight/; `threads_map` is the probe's task
    // storage. An error: this kernel cannot list them (it needs Linux 5.13).
    template <typename S>
    static Result<std::unique_ptr<OpenCallReader>> open(int threads_map) {
        ebpf::Skeleton<S> skeleton(S::open());
        if (!skeleton) {
            return fail_errno("open the BPF programs that list calls in flight");
        }
        const std::shared_ptr<S> shared = std::move(skeleton);
        if (auto used = use_map(shared->obj, threads_map); !used) {
            return tl::unexpected(used.error());
        }
        if (const int error = S::load(shared.get()); error != 0) {
            return fail_errno("load the BPF programs that list calls in flight", -error);
        }
        return link(shared->obj, [shared](std::uint64_t ns) { shared->bss->min_age_ns = ns; });
    }

    // The threads of the listed calls are those whose innermost call is as old.
    [[nodiscard]] Result<OpenCalls> read(const OpenCallQuery &query,
                                         OpenCallList::Describe describe);

    // Of the calls that are shown and older than that.
    using IsShown = std::function<bool(const open_call_record &)>;
    [[nodiscard]] Result<OldestCalls> read_oldest(std::chrono::nanoseconds min_age,
                                                  const IsShown &is_shown);

private:
    using SetMinAge = std::function<void(std::uint64_t ns)>;

    OpenCallReader(Fd calls, Fd threads, SetMinAge set_min_age)
        : calls_(std::move(calls)),
          threads_(std::move(threads)),
          set_min_age_(std::move(set_min_age)) {}
    static Result<> use_map(const bpf_object *object, int threads_map);
    static Result<std::unique_ptr<OpenCallReader>> link(const bpf_object *object,
                                                        SetMinAge set_min_age);

    Fd calls_, threads_;  // links
    SetMinAge set_min_age_;
};

}  // namespace gpusnoop::probes
