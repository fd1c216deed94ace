// The CUDA probe's calls that are in flight, or that never returned.
#include <utility>

#include "bpf/cuda/functions.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/attach/functions.h"

namespace gpusnoop::probes {

namespace {

// The sizes and the kind of copy: addresses and handles are not shown.
std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments_of(const struct open_call &call) {
    std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments;
    // These operations have an address there.
    const CudaFunction *const function = function_of(call.cookie);
    const bool has_size = function != nullptr && function->operation != CUDA_ALLOCATE_PITCHED;
    for (const cuda_cookie_field field : {CUDA_BYTES, CUDA_COUNT, CUDA_KIND}) {
        const auto position = static_cast<std::uint8_t>(CUDA_COOKIE_SLOT(call.cookie, field));
        // Only the arguments in registers are always read.
        if (position >= 1 && position <= 6 && (has_size || field != CUDA_BYTES)) {
            arguments.emplace_back(position, call.argument[position - 1U]);
        }
    }
    return arguments;
}

OpenCall describe(const Process &process, const struct open_call &record) {
    OpenCall call = open_call_of(process, record);
    const CudaFunction *const function = function_of(record.cookie);
    call.function = function == nullptr ? "unknown" : function->name;
    call.library = function != nullptr && function->is_driver() ? "libcuda" : "libcudart";
    call.is_file_known = false;
    call.arguments = arguments_of(record);
    if (std::string gpu = gpu_of(process, device_of(process, record.device)); gpu != "unknown") {
        call.gpu = std::move(gpu);
    }
    return call;
}

}  // namespace

OpenCall CudaAggregator::open_call(const open_call_record &record) {
    OpenCall call = describe(processes_.of(ProcessKey{record.tgid, record.since_ns}), record.call);
    call.returns_to = record.returns_to;
    return call;
}

bool CudaAggregator::take_unreturned_call(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_unreturned_record>(bytes);
    if (!record || function_of(record->unreturned.call.cookie) == nullptr) {
        return false;
    }
    if (unreturned_.size() < max_unreturned_calls) {
        UnreturnedCall &call = unreturned_.emplace_back();
        static_cast<OpenCall &>(call) =
            describe(processes_.of(ProcessKey{record->head.tgid, record->head.since_ns}),
                     record->unreturned.call);
        call.ended_ns = record->head.ended_ns;
        call.signal = record->unreturned.signal;
    }
    return true;
}

}  // namespace gpusnoop::probes
