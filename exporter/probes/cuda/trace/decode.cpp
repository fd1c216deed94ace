#include "exporter/probes/cuda/trace/decode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "bpf/cuda/functions.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/events/events.h"

namespace gpusnoop::trace {

namespace {

constexpr std::array<std::string_view, CUDA_OPERATION_COUNT> operation_names = [] {
    std::array<std::string_view, CUDA_OPERATION_COUNT> names{};
    names[CUDA_ALLOCATE] = names[CUDA_ALLOCATE_PITCHED] = names[CUDA_ALLOCATE_3D] = "allocate";
    names[CUDA_ALLOCATE_AT] = names[CUDA_ALLOCATE_FROM_POOL] = "allocate";
    names[CUDA_GET_POOL] = "get_pool";
    names[CUDA_DESTROY_POOL] = "destroy_pool";
    names[CUDA_MAKE_STREAM] = "make_stream";
    names[CUDA_FREE] = "free";
    names[CUDA_MAP] = "map";
    names[CUDA_UNMAP] = "unmap";
    names[CUDA_HANDLE] = "get_memory_handle";
    names[CUDA_RESET] = names[CUDA_RESET_DEVICE] = "reset_device";
    names[CUDA_DESTROY_CONTEXT] = "destroy_context";
    names[CUDA_COPY] = names[CUDA_COPY_3D] = names[CUDA_COPY_3D_PEER] = "copy";
    names[CUDA_COPY_DRIVER_2D] = names[CUDA_COPY_DRIVER_3D] = "copy";
    names[CUDA_SET] = names[CUDA_SET_3D] = "set";
    names[CUDA_LAUNCH] = names[CUDA_LAUNCH_CONFIG] = names[CUDA_LAUNCH_DRIVER] = "launch";
    names[CUDA_LAUNCH_GRAPH] = "launch_graph";
    names[CUDA_WAIT_STREAM] = "wait_stream";
    names[CUDA_SYNC_EVENT] = "synchronize_event";
    names[CUDA_WAIT_DEVICE] = "wait_device";
    names[CUDA_USE_DEVICE] = "use_device";
    names[CUDA_USE_CONTEXT] = names[CUDA_PUSH_CONTEXT] = names[CUDA_POP_CONTEXT] = "use_context";
    names[CUDA_CREATE_CONTEXT] = "create_context";
    names[CUDA_PRIMARY_CONTEXT] = "retain_context";
    names[CUDA_GET_KERNEL] = names[CUDA_GET_FUNCTION] = "get_kernel";
    names[CUDA_REGISTER] = "register";
    names[CUDA_LOAD] = "load";
    names[CUDA_UNLOAD] = "unload";
    names[CUDA_FREE_MEMORY] = "read_free_memory";
    names[CUDA_ELAPSED] = "read_elapsed_time";
    names[CUDA_BEGIN_CAPTURE] = "begin_capture";
    names[CUDA_END_CAPTURE] = "end_capture";
    names[CUDA_RECORD_EVENT] = "record_event";
    names[CUDA_WAIT_EVENT] = "wait_event";
    names[CUDA_DESTROY_STREAM] = "destroy_stream";
    names[CUDA_CREATE_GRAPH] = names[CUDA_CLONE_GRAPH] = "make_graph";
    names[CUDA_INSTANTIATE] = "instantiate_graph";
    names[CUDA_ADD_NODE] = names[CUDA_SET_NODE] = names[CUDA_DESTROY_NODE] = "change_graph";
    names[CUDA_UPDATE_EXECUTABLE] = names[CUDA_SET_EXECUTABLE_NODE] = "change_graph";
    names[CUDA_ENABLE_NODE] = "change_graph";
    names[CUDA_DESTROY_GRAPH] = names[CUDA_DESTROY_EXECUTABLE] = "destroy_graph";
    names[CUDA_GET_CHILD] = "get_graph";
    names[CUDA_SUBSCRIBE] = names[CUDA_UNSUBSCRIBE] = names[CUDA_ENABLE_ACTIVITY] = "profile";
    names[CUDA_DISABLE_ACTIVITY] = names[CUDA_FINALIZE_PROFILER] = "profile";
    return names;
}();
static_assert(std::ranges::none_of(operation_names, &std::string_view::empty));

constexpr std::array<std::string_view, MEMORY_KIND_COUNT> memory_kinds = {
    "device", "async", "managed", "pinned_host", "vmm"};
constexpr std::array<std::string_view, 5> copy_kinds = {"h2h", "h2d", "d2h", "d2d", "default"};

std::string kind_name(std::span<const std::string_view> names, std::uint32_t kind) {
    return std::string(kind < names.size() ? names[kind] : "unknown");
}

// The meaning of `destination` in a record of this operation.
std::string_view address_key(std::uint8_t operation) {
    switch (operation) {
        case CUDA_HANDLE:
            return "handle";
        case CUDA_DESTROY_CONTEXT:
        case CUDA_USE_CONTEXT:
        case CUDA_PUSH_CONTEXT:
        case CUDA_CREATE_CONTEXT:
        case CUDA_PRIMARY_CONTEXT:
            return "context";
        case CUDA_MAKE_STREAM:
            return "stream";
        case CUDA_COPY:
        case CUDA_COPY_3D:
        case CUDA_COPY_3D_PEER:
        case CUDA_COPY_DRIVER_2D:
        case CUDA_COPY_DRIVER_3D:
            return "destination";
        case CUDA_LAUNCH_GRAPH:
        case CUDA_END_CAPTURE:
        case CUDA_CREATE_GRAPH:
        case CUDA_CLONE_GRAPH:
        case CUDA_DESTROY_GRAPH:
        case CUDA_INSTANTIATE:
        case CUDA_UPDATE_EXECUTABLE:
        case CUDA_DESTROY_EXECUTABLE:
        case CUDA_ADD_NODE:
        case CUDA_SET_EXECUTABLE_NODE:
        case CUDA_ENABLE_NODE:
            return "graph";
        case CUDA_RECORD_EVENT:
        case CUDA_WAIT_EVENT:
            return "event";
        default:
            return "address";
    }
}

bool is_transfer(std::uint8_t operation) {
    return operation >= CUDA_COPY && operation <= CUDA_SET_3D;
}

std::vector<Word> words_of(const cuda_trace_record &record, std::optional<std::size_t> parameters) {
    const std::size_t read = std::min<std::size_t>(record.word_count, CUDA_TRACE_WORDS);
    std::vector<Word> words;
    for (std::size_t i = 0; i < std::min(read, parameters.value_or(read)); i++) {
        words.push_back({record.words[i]});
    }
    return words;
}

std::string_view name_of(probes::CudaApi api) {
    switch (api) {
        case probes::CudaApi::runtime:
            break;
        case probes::CudaApi::driver:
            return "driver";
        case probes::CudaApi::cupti:
            return "cupti";
    }
    return "runtime";
}

std::string result_name(std::int32_t result, probes::CudaApi api) {
    const std::string_view name = probes::error_name(api, result);
    return name.empty() ? std::to_string(result) : std::string(name);
}

// In the best order to read.
std::vector<Detail> details_of(const cuda_trace_record &record,
                               const probes::CudaFunction &function, std::string kernel,
                               std::optional<std::size_t> parameters) {
    const auto has = [&](cuda_trace_field field) { return (record.fields & field) != 0; };
    const cuda_copy_record &memory = record.memory;
    const std::uint8_t operation = function.operation;
    std::vector<Detail> details;
    if (has(TRACE_BYTES)) {
        details.emplace_back("bytes", std::uint64_t{memory.bytes});
    }
    if (has(TRACE_COPIES)) {
        details.emplace_back("copies", std::uint64_t{memory.bytes});
    }
    if (has(TRACE_ELAPSED)) {
        if (const auto elapsed = probes::elapsed_ns(static_cast<std::uint32_t>(memory.bytes),
                                                    memory.head.ended_ns)) {
            details.emplace_back("elapsed_ns", *elapsed);
        }
    }
    if (has(TRACE_KIND) && is_transfer(operation)) {
        details.emplace_back("direction", kind_name(copy_kinds, memory.kind));
    } else if (has(TRACE_KIND)) {
        const std::uint32_t kind = memory.kind == std::uint32_t{MEMORY_vmm_host}
                                       ? std::uint32_t{MEMORY_pinned_host}
                                       : memory.kind;
        details.emplace_back("memory_kind", kind_name(memory_kinds, kind));
    }
    if (is_transfer(operation)) {
        details.emplace_back("mode", std::string(memory.is_async != 0 ? "async" : "sync"));
    }
    if (has(TRACE_ADDRESS)) {
        details.emplace_back(address_key(operation), Word{memory.destination});
    }
    if (has(TRACE_SOURCE)) {
        details.emplace_back(operation == CUDA_MAP ? "handle" : "source", Word{memory.source});
    }
    if (has(TRACE_KERNEL)) {
        details.emplace_back("kernel", kernel.empty() ? "unknown" : std::move(kernel));
        details.emplace_back("kernel_handle", Word{record.kernel});
    }
    if (has(TRACE_SHAPE)) {
        details.emplace_back("grid", Size3{record.grid[0], record.grid[1], record.grid[2]});
        details.emplace_back("block", Size3{record.block[0], record.block[1], record.block[2]});
    }
    if (has(TRACE_SHARED)) {
        // In the driver's configuration it has 32 bits, followed by 32 unused ones.
        const bool narrow = operation == CUDA_LAUNCH_CONFIG && function.is_driver();
        details.emplace_back("shared_bytes",
                             narrow ? record.shared_bytes & 0xffffffffU : record.shared_bytes);
    }
    if (has(TRACE_STREAM)) {
        details.emplace_back("stream", Word{memory.stream});
    }
    if (has(TRACE_CAPTURED)) {
        details.emplace_back("captured", std::string("true"));
    }
    if (operation >= CUDA_LAUNCH && operation <= CUDA_LAUNCH_DRIVER) {
        details.emplace_back("arguments", words_of(record, parameters));
    }
    return details;
}

}  // namespace

Event decode(const cuda_trace_record &record, std::int64_t clock_offset_ns, std::string kernel,
             std::optional<std::size_t> parameters) {
    const cuda_record &head = record.memory.head;
    Event event;
    event.time_ns = began_ns(head.ended_ns, head.duration_ns, clock_offset_ns);
    event.duration_ns = head.duration_ns;
    event.pid = head.tgid;
    event.tid = record.tid;
    event.kind = "function";
    event.details = {{"device", head.device >= 0 ? Value(std::int64_t{head.device}) : Value()}};
    const std::size_t number = head.function & ~unsigned{CUDA_FUNCTION_FLAGS};
    const auto functions = probes::cuda_functions();
    auto api = probes::CudaApi::runtime;
    std::string_view operation;
    if (number < functions.size()) {
        const probes::CudaFunction &function = functions[number];
        event.name = function.symbol;
        api = function.api;
        operation = operation_names[function.operation];
        std::ranges::move(details_of(record, function, std::move(kernel), parameters),
                          std::back_inserter(event.details));
    }
    // The runtime is linked into the executable.
    const bool is_static = (head.function & CUDA_STATIC_RUNTIME) != 0;
    event.result = result_name(head.result, api);
    event.results = {{"api", std::string(name_of(api))},
                     {"linkage", std::string(is_static ? "static" : "shared")},
                     {"operation", std::string(operation)},
                     {"result", std::int64_t{head.result}},
                     {"result_name", event.result}};
    return event;
}

}  // namespace gpusnoop::trace
