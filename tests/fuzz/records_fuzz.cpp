// libFuzzer target: any bytes as records of the rings, as a kernel would send them that has gone
// mad. What comes of them must be pages that Prometheus can read.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "bpf/functions/functions.h"
#include "exporter/base/text/text.h"
#include "exporter/metrics/page.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/functions/count/aggregator.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

// Reads the input from its beginning; when it is used up, zeros.
class Input {
public:
    Input(const std::uint8_t *data, std::size_t size) : data_(data, size) {}
    [[nodiscard]] bool empty() const { return data_.empty(); }
    std::uint8_t byte() {
        if (data_.empty()) {
            return 0;
        }
        const std::uint8_t first = data_.front();
        data_ = data_.subspan(1);
        return first;
    }
    template <typename T>
    T take() {
        T value{};
        const std::size_t size = std::min(sizeof(T), data_.size());
        std::memcpy(&value, data_.data(), size);
        data_ = data_.subspan(size);
        return value;
    }

private:
    std::span<const std::uint8_t> data_;
};

constexpr std::uint32_t process_count = 3;
constexpr std::uint32_t functions = 9;

// Of a size that records have, so that not all is refused.
std::size_t cuda_size(std::uint16_t type) {
    switch (type) {
        case CUDA_RECORD_PROCESS:
            return sizeof(cuda_process_record);
        case CUDA_RECORD_EXIT:
            return sizeof(cuda_exit_record);
        case CUDA_RECORD_ALLOCATE:
        case CUDA_RECORD_FREE:
            return sizeof(cuda_allocation_record);
        case CUDA_RECORD_MAP:
        case CUDA_RECORD_UNMAP:
            return sizeof(cuda_mapping_record);
        case CUDA_RECORD_RESET:
            return sizeof(cuda_reset_record);
        case CUDA_RECORD_KERNEL:
            return sizeof(cuda_kernel_record);
        case CUDA_RECORD_NAME:
            return sizeof(cuda_name_record);
        case CUDA_RECORD_COPY:
        case CUDA_RECORD_SET:
            return sizeof(cuda_copy_record);
        case CUDA_RECORD_BATCH:
            return sizeof(cuda_batch_record);
        case CUDA_RECORD_LAUNCH:
            return sizeof(cuda_launch_record);
        case CUDA_RECORD_WAIT:
            return sizeof(cuda_wait_record);
        default:
            return sizeof(cuda_record);
    }
}

using Bytes =
    std::array<std::byte, std::max({sizeof(func_slow_record), sizeof(func_process_record),
                                    sizeof(cuda_process_record), sizeof(cuda_batch_record)})>;

void fill(Bytes &bytes, Input &input, std::size_t size) {
    bytes.fill(std::byte{0});
    // Its first words decide most; the rest of a long one is a few bytes again and again.
    constexpr std::size_t own = 96;
    constexpr std::size_t again = 16;
    for (std::size_t i = 0; i < size; i++) {
        bytes.at(i) = i < own + again ? static_cast<std::byte>(input.byte()) : bytes[i - again];
    }
}

std::span<const std::byte> cuda_record_of(Bytes &bytes, Input &input) {
    const std::uint16_t type = input.byte() % (CUDA_RECORD_TRACE + 2);
    const std::size_t size = cuda_size(type);
    fill(bytes, input, size);
    cuda_record head{};
    std::memcpy(&head, bytes.data(), sizeof(head));
    head.type = type;
    head.tgid = head.tgid % process_count;
    head.since_ns = head.since_ns % 2;
    std::memcpy(bytes.data(), &head, sizeof(head));
    return std::span(bytes).first(size);
}

std::span<const std::byte> functions_record_of(Bytes &bytes, Input &input) {
    constexpr std::array sizes = {sizeof(func_exit_record), sizeof(func_process_record),
                                  sizeof(func_call_record), sizeof(func_arguments_record),
                                  sizeof(func_slow_record), sizeof(func_words_record)};
    const std::size_t size = sizes[input.byte() % sizes.size()];
    fill(bytes, input, size);
    func_record head{};
    std::memcpy(&head, bytes.data(), sizeof(head));
    head.type %= FUNC_RECORD_WORDS + 2;
    head.tgid %= process_count;
    head.since_ns %= 2;
    std::memcpy(bytes.data(), &head, sizeof(head));
    if (size >= sizeof(func_call_record)) {
        func_call_record call{};
        std::memcpy(&call, bytes.data(), sizeof(call));
        call.function %= functions + 1;
        std::memcpy(bytes.data(), &call, sizeof(call));
    }
    return std::span(bytes).first(size);
}

void check_page(const std::vector<series::FamilySnapshot> &families) {
    for (const series::FamilySnapshot &family : families) {
        for (const auto &values : family.labels) {
            for (const std::string &value : *values) {
                if (to_valid_utf8(value, value.size()) != value) {
                    std::abort();
                }
            }
        }
    }
    (void)metrics::write_page(metrics::Format::text, families, {});
}

probes::FunctionOptions options_of(std::uint32_t number) {
    probes::FunctionOptions options;
    options.slow_threshold = std::chrono::microseconds(number);
    options.errors = number % 2 == 0 ? probes::ErrorKind::nccl_result : probes::ErrorKind::nonzero;
    options.entry_only = number == 3;
    return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    Input input(data, size);
    const auto budget = [](std::string_view) { return 20U; };
    std::vector<symbols::CudaKernelRequest> asked;
    CudaCallbacks callbacks;
    callbacks.ask_for_kernel = [&](auto request) { asked.push_back(request); };
    callbacks.describe = [](Process &one) {
        one.gpu_name = [](auto ordinal) { return ordinal ? std::to_string(*ordinal) : "unknown"; };
    };
    CudaSettings settings;
    settings.budget = budget;
    CudaAggregator cuda(std::move(settings), std::move(callbacks));
    FunctionIds table;
    for (std::uint32_t i = 0; i < functions; i++) {
        constexpr std::array<const char *, functions> names = {"f0",
                                                               "f1",
                                                               "ncclAllReduce",
                                                               "f3",
                                                               "ncclCommInitRankScalable",
                                                               "ncclCommSplit",
                                                               "ncclCommShrink",
                                                               "ncclCommInitAll",
                                                               "ncclCommUserRank"};
        const std::string name = names.at(i);
        table.add({"libnccl.so.2", "g", name, options_of(i), nccl_function(name)});
    }
    FunctionsSettings functions_settings;
    functions_settings.budget = budget;
    FunctionsAggregator func(std::move(functions_settings), table, [](auto &) { return true; });
    Bytes bytes;
    while (!input.empty()) {
        switch (const std::uint8_t step = input.byte(); step % 16) {
            case 0:
                cuda.apply_until(std::chrono::nanoseconds(input.take<std::int32_t>()));
                break;
            case 1:
                for (const auto &request : std::exchange(asked, {})) {
                    cuda.on_kernel_name({request.ticket, std::string(3, static_cast<char>(step))});
                }
                break;
            case 2:
                cuda.tidy(std::chrono::nanoseconds(input.take<std::int64_t>() >> 1));
                func.tidy(std::chrono::nanoseconds(input.take<std::int64_t>() >> 1));
                break;
            case 3:
                cuda.assume_ended({input.byte() % process_count, input.byte() % 2U},
                                  std::chrono::nanoseconds(input.take<std::uint32_t>()));
                break;
            case 4: {
                cuda.watch_ends();
                LiveTable live{};
                live.since = std::chrono::nanoseconds(input.take<std::uint32_t>());
                live.processes[input.byte() % process_count] = input.take<cuda_live_process>();
                live.entries.emplace_back(input.take<cuda_live_key>(), input.take<cuda_live>());
                cuda.reconcile(live);
                break;
            }
            case 5:
            case 6:
            case 7:
            case 8:
                cuda.on_calls_record(cuda_record_of(bytes, input));
                break;
            case 9:
            case 10:
            case 11:
            case 12:
                cuda.on_allocations_record(cuda_record_of(bytes, input));
                break;
            default:
                func.on_record(functions_record_of(bytes, input));
        }
    }
    cuda.apply_until(std::chrono::nanoseconds::max());
    check_page(cuda.report(std::chrono::seconds(1'000)));
    (void)cuda.allocations();
    check_page(func.report(std::chrono::seconds(1'000)));
    (void)func.snapshot(std::chrono::seconds(1'000));
    return 0;
}
