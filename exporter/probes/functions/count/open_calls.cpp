// The functions probe's calls that are in flight, or that never returned.
#include "exporter/probes/functions/count/aggregator.h"

namespace gpusnoop::probes {

namespace {

// The cookie's lower half (FUNC_NUMBER).
std::uint32_t number_of(const struct open_call &call) {
    return static_cast<std::uint32_t>(call.cookie);
}

}  // namespace

std::optional<OpenCall> FunctionsAggregator::describe(Process &process,
                                                      const struct open_call &record) const {
    const FunctionInfoPtr function = table_->find(number_of(record));
    if (function == nullptr ||
        record.started_ns <
            static_cast<std::uint64_t>(table_->given_at(number_of(record)).count())) {
        return std::nullopt;
    }
    OpenCall call = open_call_of(process, record);
    call.library = function->library;
    call.function = function->name;
    for (const std::uint8_t position : function->options.arguments) {
        const bool is_read = position < FUNC_ARGUMENTS || (record.cookie & FUNC_SEVENTH) != 0;
        if (position >= 1 && position <= FUNC_ARGUMENTS && is_read) {
            call.arguments.emplace_back(position, record.argument[position - 1]);
        }
    }
    if (function->nccl) {
        call.nccl = process.communicators.place(*function->nccl, record.argument);
    }
    return call;
}

std::optional<OpenCall> FunctionsAggregator::open_call(const open_call_record &record) {
    auto call = describe(processes_.of({record.tgid, record.since_ns}), record.call);
    if (call) {
        call->returns_to = record.returns_to;
    }
    return call;
}

void FunctionsAggregator::on_unreturned(const func_unreturned_record &record) {
    const auto &[call, signal, unused] = record.unreturned;
    if (unreturned_.size() >= max_unreturned_calls) {
        return;
    }
    if (auto described = describe(processes_.of({record.head.tgid, record.head.since_ns}), call)) {
        UnreturnedCall &unreturned = unreturned_.emplace_back();
        static_cast<OpenCall &>(unreturned) = *std::move(described);
        unreturned.ended_ns = record.head.ended_ns;
        unreturned.signal = signal;
    } else {
        reject(number_of(call));
    }
}

}  // namespace gpusnoop::probes
